#include "apps/convert_report.h"

#include <fmt/format.h>

#include "apps/inspect_table.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

std::string text_of(const ordered_json &value) {
  if (value.is_string()) return terminal_text(value.get_ref<const std::string &>(), 200);
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.dump();
}

/// "8 (14 pairs), 16 (2 pairs)"
std::string counts_text(const ordered_json &counts, const char *key) {
  constexpr size_t k_most = 8;
  std::string text;
  for (size_t i = 0; i < counts.size() && i < k_most; ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", text_of(counts[i].at(key)),
                        count_text(counts[i].at("n_pairs").get<size_t>(), "pair"));
  }
  if (counts.size() > k_most) text += fmt::format(", {} more", counts.size() - k_most);
  return text.empty() ? "-" : text;
}

/// "f16 (28 tensors, 1.5 MiB)"
std::string types_text(const ordered_json &types) {
  std::string text;
  for (const auto &type : types) {
    text += fmt::format("{}{} ({}, {})", text.empty() ? "" : ", ", text_of(type.at("type")),
                        count_text(type.at("n_tensors").get<size_t>(), "tensor"),
                        bytes_text(type.at("size_bytes").get<size_t>()));
  }
  return text;
}

std::string folded_text(const ordered_json &report) {
  const auto n_folded = report.at("n_folded").get<size_t>();
  auto text = text_of(report.at("alpha"));
  if (n_folded > 0) text += fmt::format(", own scale folded into {}", count_text(n_folded, "B"));
  return text;
}

}  // namespace

std::string conversion_text(const ordered_json &report) {
  const auto &output = report.at("output");
  TextTable table(report.at("dry_run").get<bool>() ? "would be converted" : "converted", "ll");
  table.add({"from", text_of(report.at("source"))});
  if (!output.is_null()) table.add({"to", text_of(output)});
  table.add({"base", fmt::format("{}, {}", text_of(report.at("base").at("path")),
                                 text_of(report.at("base").at("architecture")))});
  table.add({"pairs", text_of(report.at("n_pairs"))});
  table.add({"ranks", counts_text(report.at("ranks"), "n_rank")});
  table.add({"scales", counts_text(report.at("scales"), "scale")});
  if (report.contains("alpha")) table.add({"alpha", folded_text(report)});
  if (report.at("n_replacements").get<size_t>() > 0) {
    table.add({"replaced tensors", text_of(report.at("n_replacements"))});
  }
  table.add({"types", types_text(report.at("types"))});
  table.add({"size", bytes_text(report.at("size_bytes").get<size_t>())});
  for (const auto &note : report.at("notes")) table.add({"note", text_of(note)});
  return table.text();
}

}  // namespace patchbay
