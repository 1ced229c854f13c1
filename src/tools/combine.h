#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tools/tensor_change.h"

namespace patchbay {

/// How PEFT's add_weighted_adapter makes several adapters one, by its names. All work on A and on B
/// separately, so none of them gives the sum of the changes.
enum class CombineRule {
  linear,       ///< weighted sum of the factors
  ties,         ///< keep the largest, elect a sign, mean of those that have it (arXiv 2306.01708)
  dare_linear,  ///< drop at random and scale up what is left (arXiv 2311.03099), then linear
  dare_ties,    ///< the same, then as ties
};

[[nodiscard]] std::string_view to_string(CombineRule rule);

/// Which of `n` numbers of one factor DARE keeps.
using DareMask = std::function<std::vector<bool>(size_t n)>;

/// What a rule does to one factor of all adapters: F32 tensors of one size, a weight each.
/// `density`: the part of the numbers that is kept, above 0; 1 keeps all. `mask` is asked once for
/// each tensor, in order, when the rule is DARE's and density is below 1. REQUIRES: at least one.
[[nodiscard]] std::vector<float> combine_numbers(CombineRule rule, double density,
                                                 std::vector<std::vector<float>> tensors,
                                                 std::span<const float> weights,
                                                 const DareMask &mask);

/// One adapter of scale 1 out of several, each with its strength as weight. A weight w on a pair of
/// scale s becomes sign(w s) sqrt|w s| on A and sqrt|w s| on B. Masks are drawn from `seed`. Throws
/// LoadError: the ranks of a target differ, or an adapter holds more than plain pairs.
[[nodiscard]] std::shared_ptr<const Adapter> combine_adapters(
    std::span<const MergedAdapter> adapters, CombineRule rule, double density, uint64_t seed);

}  // namespace patchbay
