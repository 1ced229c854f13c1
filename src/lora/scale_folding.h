#pragma once

#include <span>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// One alpha for a whole GGUF adapter, and by what each pair's B (and lora_bias) has to be
/// multiplied so that alpha / rank is the scale of every pair. A pair of scale 0 gets the factor 0,
/// and an alpha of 0 is never chosen: readers take it for "none given".
struct ScaleFolding {
  float alpha = 1;
  std::vector<double> factors;  ///< per pair, in their order; exactly 1: B stays as it is
};

/// Chooses the alpha that leaves most pairs as they are; `preferred`, what the adapter states for
/// display, where it is one of these.
[[nodiscard]] ScaleFolding fold_scales(std::span<const FactorPair> pairs, double preferred);

}  // namespace patchbay
