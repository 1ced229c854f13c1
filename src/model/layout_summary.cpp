#include "model/layout_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace patchbay {

LayoutSummary LayoutSummary::of(const WeightPlan &plan) {
  LayoutSummary summary{.n_packed = plan.count(WeightLayout::packed),
                        .n_interleaved = plan.count(WeightLayout::interleaved),
                        .n_as_stored = plan.count(WeightLayout::as_stored)};
  std::set<Isa> isas;
  for (const auto &weight : plan.weights) {
    if (weight.isa) isas.insert(*weight.isa);
  }
  for (const Isa isa : isas) summary.isas.emplace_back(to_string(isa));
  return summary;
}

std::string to_string(const LayoutSummary &summary) {
  const auto &isas = summary.isas;
  return fmt::format("{} packed{}, {} interleaved, {} as stored", summary.n_packed,
                     isas.empty() ? "" : fmt::format(" ({})", fmt::join(isas, ", ")),
                     summary.n_interleaved, summary.n_as_stored);
}

}  // namespace patchbay
