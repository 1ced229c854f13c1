#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "model/weight_store.h"

namespace patchbay {

/// A model's weights by the way they lie in memory.
struct LayoutSummary {
  size_t n_packed = 0;
  size_t n_interleaved = 0;
  size_t n_as_stored = 0;
  std::vector<Isa> isas;  ///< of the products of packed ones, in their order

  explicit LayoutSummary(std::span<const PlannedWeight> weights);
};

/// "210 packed (avx512_vnni), 1 interleaved, 61 as stored"
[[nodiscard]] std::string to_string(const LayoutSummary &summary);

}  // namespace patchbay
