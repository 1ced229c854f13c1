#include "engine/step_sets.h"

#include <algorithm>

namespace patchbay {

void count_sets(StepSets &counts, std::span<const AdapterSet> sets) {
  const auto n_sets = std::ranges::count_if(sets, [](const auto &set) { return !set.empty(); });
  const auto *const bound =
      std::ranges::lower_bound(StepSets::k_bounds, static_cast<uint32_t>(n_sets));
  ++counts.n_steps.at(static_cast<size_t>(bound - StepSets::k_bounds.begin()));
  counts.n_sets += static_cast<uint64_t>(n_sets);
}

}  // namespace patchbay
