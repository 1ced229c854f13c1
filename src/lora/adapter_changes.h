#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lora/adapter.h"
#include "lora/dora_terms.h"

namespace patchbay {

/// What a step adds to what a use of the base gives: y += strength * scale * B (A x), in shapes as
/// FactorPair has them. Replaced matrices, token rows and biases have this form too.
struct ProductChange {
  std::string target;  ///< AdaptableUse::name
  UseKind kind = UseKind::linear;
  int64_t n_rank = 0;
  float scale = 1;
  std::array<int64_t, 3> ne{1, 1, 1};  ///< of the use
  Factor a;
  Factor b;
  /// Not empty: one half is one-hot and not there: row `rank` of it stands for token tokens[rank].
  /// A of a look-up, B of the head.
  std::vector<int32_t> tokens;
  /// "A x" is 1 and A is not there: B [1, n_out] is added as it is.
  bool is_bias = false;
  /// The rows of base plus change get other lengths: then y = y0 + (g - 1) y0 + g strength scale B
  /// (A x), y0 what the base gives. Null: they do not.
  std::shared_ptr<const DoraTerms> dora;

  [[nodiscard]] int64_t n_out() const { return kind == UseKind::embed ? ne[0] : ne[1]; }
  [[nodiscard]] int64_t n_expert() const { return kind == UseKind::experts ? ne[2] : 1; }
};

/// What is added to the weight of a norm: F32, times the strength.
struct NormChange {
  std::string tensor;  ///< AdaptableNorm::name
  std::vector<float> delta;
};

/// An adapter as what it changes against its base, which is all that steps know of it.
struct AdapterChanges {
  /// Sorted by target; of one at most a bias and before it one other.
  std::vector<ProductChange> products;
  std::vector<NormChange> norms;  ///< sorted by tensor
  size_t size_bytes = 0;          ///< beside the adapter's own factors
};

/// The changes of an adapter that fits `base`; null when they depend on numbers of a base that has
/// none at hand. Large ones are computed on all cores.
[[nodiscard]] std::shared_ptr<const AdapterChanges> make_changes(const Adapter &adapter,
                                                                 const BaseInfo &base);

/// Those that the adapter was loaded with, or its pairs as they are. Throws LoadError when they
/// depend on numbers that its base did not have.
[[nodiscard]] std::shared_ptr<const AdapterChanges> changes_of(const Adapter &adapter);

}  // namespace patchbay
