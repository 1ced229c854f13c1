#include "jinja/filters.h"

#include <unordered_map>

namespace patchbay::jinja {

namespace {

std::unordered_map<std::string_view, FilterBody> all_filters() {
  std::unordered_map<std::string_view, FilterBody> all;
  for (const auto &filters : {text_filters(), number_filters(), sequence_filters(), order_filters(),
                              selection_filters()}) {
    for (const NamedFilter &filter : filters) all.emplace(filter.name, filter.body);
  }
  return all;
}

}  // namespace

FilterBody find_filter(std::string_view name) {
  static const auto filters = all_filters();
  const auto at = filters.find(name);
  return at == filters.end() ? nullptr : at->second;
}

}  // namespace patchbay::jinja
