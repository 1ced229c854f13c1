#pragma once

#include <string>
#include <vector>

#include "engine/loaded_model.h"

namespace patchbay {

/// Where two models hold the numbers of one thing that the graph reads.
struct TensorPair {
  std::string name;
  UseKind kind = UseKind::linear;
  const GgufTensor *base = nullptr;   ///< null: only a vector that the base lacks, as zeros
  const GgufTensor *tuned = nullptr;  ///< the same
};

/// Refuses, by LoadError, two models of which one cannot be a tuned form of the other: other
/// architecture, hyper-parameters or shapes, or Hadamard-folded weights.
void check_same_kind(const LoadedModel &base, const LoadedModel &tuned);

/// The weights that adapters may change; those of a tied head are its table's.
[[nodiscard]] std::vector<TensorPair> weight_pairs(const LoadedModel &base,
                                                   const LoadedModel &tuned);

/// Norms, biases and rope factors that either has, and that differ.
[[nodiscard]] std::vector<TensorPair> different_vectors(const LoadedModel &base,
                                                        const LoadedModel &tuned);

}  // namespace patchbay
