#include "server/worn_adapters.h"

#include "server/http_types.h"

namespace patchbay {

void wear(std::vector<WornEntry> &worn, Request &request) {
  std::vector<WornAdapter> adapters;
  for (const auto &one : worn) adapters.push_back({one.entry.adapter, one.strength});
  PlannedSpans planned = plan_spans(request.prompt, adapters);
  request.spans = std::move(planned.spans);
  for (size_t i = 0; i < worn.size(); ++i) worn[i].active_from = planned.active_from[i];
}

Json worn_json(const std::vector<WornEntry> &worn) {
  Json json = Json::array();
  for (const auto &[entry, strength, active_from] : worn) {
    json.push_back({{"id", entry.id},
                    {"name", entry.name},
                    {"scale", strength},
                    {"active_from", active_from}});
  }
  return json;
}

std::vector<std::string> acting_names(const std::vector<WornEntry> &worn) {
  std::vector<std::string> names;
  for (const auto &one : worn) {
    if (one.strength != 0 && one.active_from >= 0) names.push_back(one.entry.name);
  }
  return names;
}

std::vector<std::string> names_not_invoked(const std::vector<WornEntry> &worn) {
  std::vector<std::string> names;
  for (const auto &one : worn) {
    if (one.strength != 0 && one.active_from < 0) names.push_back(one.entry.name);
  }
  return names;
}

std::string header_of(const std::vector<std::string> &names) {
  std::string header;
  for (const auto &name : names) {
    if (!header.empty()) header += ',';
    header += percent_encode(name);
  }
  return header;
}

}  // namespace patchbay
