#include "model/layout_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace patchbay {

LayoutSummary::LayoutSummary(std::span<const PlannedWeight> weights) {
  const auto count = [&](WeightLayout layout) {
    return static_cast<size_t>(std::ranges::count(weights, layout, &PlannedWeight::layout));
  };
  n_packed = count(WeightLayout::packed);
  n_interleaved = count(WeightLayout::interleaved);
  n_as_stored = count(WeightLayout::as_stored);
  std::set<Isa> found;
  for (const auto &weight : weights) {
    if (weight.isa) found.insert(*weight.isa);
  }
  isas.assign(found.begin(), found.end());
}

std::string to_string(const LayoutSummary &summary) {
  std::vector<std::string_view> isas;
  for (const Isa isa : summary.isas) isas.push_back(to_string(isa));
  return fmt::format("{} packed{}, {} interleaved, {} as stored", summary.n_packed,
                     isas.empty() ? "" : fmt::format(" ({})", fmt::join(isas, ", ")),
                     summary.n_interleaved, summary.n_as_stored);
}

}  // namespace patchbay
