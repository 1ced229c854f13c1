#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// An adapter and the strength at which it is merged.
struct MergedAdapter {
  std::shared_ptr<const Adapter> adapter;
  float strength = 1;
};

/// What adapters do to one tensor of their base, in their order. Views into the adapters.
struct TensorChange {
  struct Pair {
    const FactorPair *pair = nullptr;
    float strength = 1;

    /// Of B A, or of the bias.
    [[nodiscard]] float scale() const { return strength * pair->scale; }
  };
  struct NewNumbers {
    const Replacement *replacement = nullptr;
    float strength = 1;
  };

  std::vector<Pair> pairs;               ///< low-rank changes of this weight
  std::vector<NewNumbers> replacements;  ///< of all of it or some of its rows
  std::vector<Pair> biases;              ///< pairs whose own bias is added to this tensor
};

/// By the name of the tensor in a merged file: the output use of a tied table is output.weight.
using TensorChanges = std::map<std::string, TensorChange, std::less<>>;

/// All that the adapters change; nothing from one whose strength is 0.
[[nodiscard]] TensorChanges tensor_changes(std::span<const MergedAdapter> adapters);

/// Whether a table and the head tied to it are changed to the same numbers, so that one tensor
/// still serves both.
[[nodiscard]] bool stay_tied(const TensorChange &table, const TensorChange &head);

}  // namespace patchbay
