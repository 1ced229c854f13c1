#include "apps/inspect_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "apps/inspect_pairs.h"
#include "apps/inspect_table.h"

namespace patchbay {
namespace {

size_t column_of(HeatMap &map, const std::string &module) {
  const auto found = std::ranges::find(map.columns, module);
  if (found == map.columns.end()) {
    map.columns.push_back(module);
    return map.columns.size() - 1;
  }
  return static_cast<size_t>(found - map.columns.begin());
}

}  // namespace

HeatMap movement_map(const std::map<std::string, double> &movements, const std::string &adapter,
                     const std::string &base) {
  constexpr size_t k_max_name = 60;
  HeatMap map{.title = "Where " + terminal_text(adapter, k_max_name) + " changes the weights",
              .subtitle = "on " + terminal_text(base, k_max_name) + ", at strength 1",
              .row_axis = "layer",
              .column_axis = "weight",
              .scale = "norm of the change / norm of the weight"};
  // What is in no layer comes first.
  std::map<std::optional<uint64_t>, std::map<size_t, double>> cells;
  for (const auto &[tensor, change] : movements) {
    const auto [module, layer] = split_target(tensor);
    double &cell = cells[layer][column_of(map, module)];
    cell = std::max(cell, change);
  }
  for (const auto &[layer, row] : cells) {
    map.rows.push_back(layer ? std::to_string(*layer) : "outside");
    auto &values = map.values.emplace_back(map.columns.size());
    for (const auto &[column, value] : row) values[column] = value;
  }
  return map;
}

}  // namespace patchbay
