#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "lora/adapter.h"
#include "model/hf_names.h"

namespace patchbay {

/// Sizes of a linear module that is two weights in GGUF.
struct SplitShape {
  int64_t n_in = 0;
  int64_t n_out = 0;
};

/// nullopt: the weights cannot be made of one module.
[[nodiscard]] std::optional<SplitShape> split_shape(SplitPlan plan, const AdaptableUse &first,
                                                    const AdaptableUse &second);

/// The pairs of both weights for a pair A [n_in, n_rank], B [n_rank, n_out] on the module; scale 1.
/// A weight that is transposed has A and B changed over. REQUIRES: the sizes of split_shape().
[[nodiscard]] std::array<FactorPair, 2> split_pair(const Factor &a, const Factor &b, SplitPlan plan,
                                                   const AdaptableUse &first,
                                                   const AdaptableUse &second);

}  // namespace patchbay
