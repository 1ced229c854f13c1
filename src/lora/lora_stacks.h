#pragma once

#include <ggml-cpp.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lora/adapter_changes.h"

namespace patchbay {

/// The stacked factors of the adapters that target one weight. Slot 0 is all zeros, for rows that
/// wear none of them. Ranks below n_rank are padded with zeros; alpha / rank is folded into b, so
/// that a row's strength is all that varies per step.
///
/// | kind    | a                                        | b                                   |
/// |---------|------------------------------------------|-------------------------------------|
/// | linear  | F32 [n_in, n_rank, n_slots]              | F32 [n_rank, n_out, n_slots]        |
/// | experts | F32 [n_in, n_rank, n_expert * n_slots]   | F32 [n_rank, n_out, n_expert * n_slots] |
/// | embed   | F32 [n_rank, n_rows * (n_slots - 1) + 1], the last row zero | F32 [n_rank, n_out,
/// n_slots] |
///
/// n_rank 0: none of the adapters has a product here, and a and b are null.
struct StackedTarget {
  UseKind kind = UseKind::linear;
  int64_t n_rank = 0;
  ggml_tensor *a = nullptr;
  ggml_tensor *b = nullptr;
  ggml_tensor *bias = nullptr;  ///< F32 [n_out, n_slots]; null: no adapter has one here
  /// The terms of DoraTerms, F32 [n_out, n_expert * n_slots] each; where an adapter has none they
  /// give a gain of 1. Null: no adapter has any here.
  struct Dora {
    ggml_tensor *magnitude = nullptr;
    ggml_tensor *base = nullptr;
    ggml_tensor *cross = nullptr;
    ggml_tensor *delta = nullptr;
  } dora;
  size_t i_slots = 0;  ///< index into LoraStacks::slot_maps()
};

/// What the adapters add to the weight of one norm: F32 [n, n_slots].
struct StackedNorm {
  ggml_tensor *delta = nullptr;
  size_t i_slots = 0;
};

/// Slot of each adapter of the pool, by its index; 0 for one that does not target the weight.
/// Weights with the same members share one map.
struct SlotMap {
  std::vector<int32_t> slots;

  [[nodiscard]] int32_t slot(int32_t i_adapter) const {
    return i_adapter < 0 ? 0 : slots[static_cast<size_t>(i_adapter)];
  }
  bool operator==(const SlotMap &) const = default;
};

/// Adapters in the form that the portable LoRA step reads: per weight one stack of A and one of B,
/// so that the graph does not depend on how many there are. Immutable: another set of resident
/// adapters has other stacks.
class LoraStacks {
 public:
  /// `adapters` by their index in the pool, null where an index is free; all fit the base of
  /// `base_path`. Throws LoadError: memory cannot be had (out_of_memory), a weight is the target of
  /// more adapters than indices can tell apart, or as changes_of().
  LoraStacks(const std::vector<std::shared_ptr<const Adapter>> &adapters,
             const std::string &base_path);

  /// nullptr when no adapter targets `use`.
  [[nodiscard]] const StackedTarget *find(std::string_view use) const;
  [[nodiscard]] const StackedNorm *find_norm(std::string_view norm) const;
  [[nodiscard]] const std::vector<SlotMap> &slot_maps() const { return slot_maps_; }
  [[nodiscard]] size_t size_bytes() const;

 private:
  size_t intern(SlotMap map);

  std::vector<std::shared_ptr<const AdapterChanges>> changes_;  // by adapter; null as that is
  ggml_context_ptr context_;
  ggml_backend_buffer_ptr buffer_;
  std::vector<SlotMap> slot_maps_;
  // Keys: names inside changes_.
  std::unordered_map<std::string_view, StackedTarget> targets_;
  std::unordered_map<std::string_view, StackedNorm> norms_;
};

}  // namespace patchbay
