#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "model/weight_plan.h"

namespace patchbay {

/// A model's weights by the way they lie in memory.
struct LayoutSummary {
  size_t n_packed = 0;
  size_t n_interleaved = 0;
  size_t n_as_stored = 0;
  std::vector<std::string> isas;  ///< names of those of the packed ones' products, in Isa's order

  [[nodiscard]] static LayoutSummary of(const WeightPlan &plan);
};

/// "210 packed (avx512_vnni), 1 interleaved, 61 as stored"
[[nodiscard]] std::string to_string(const LayoutSummary &summary);

}  // namespace patchbay
