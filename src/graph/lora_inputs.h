#pragma once

#include <ggml.h>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "graph/lora_step.h"
#include "lora/lora_stacks.h"
#include "lora/routing.h"

namespace patchbay {

/// The routing of a step as the portable form's graph inputs. Tensors are made on first use while
/// the graph is built, so a weight that no token's adapter targets adds nothing; weights with the
/// same members share them. Filled by upload() for every run.
class LoraInputs {
 public:
  [[nodiscard]] static LoraShape shape_of(const LoraStacks &stacks, const Routing &routing);

  /// `stacks` outlives the object. `n_rows`: rows per RowSet.
  LoraInputs(const LoraStacks &stacks, LoraShape shape, std::array<int64_t, k_n_row_sets> n_rows);

  /// The slots for `use` if some token of the step wears an adapter that targets it, else
  /// nullptr.
  [[nodiscard]] const StackedTarget *find(std::string_view use) const;
  /// The same of a norm.
  [[nodiscard]] const StackedNorm *find_norm(std::string_view norm) const;

  [[nodiscard]] int64_t n_lanes() const { return static_cast<int64_t>(shape_.n_width); }

  // Inputs for a target or a norm, by its slot map; see upload() for their contents.
  [[nodiscard]] ggml_tensor *slots(ggml_context *context, size_t i_slots,
                                   RowSet rows);  // I32 [n_lanes, n_rows]
  [[nodiscard]] ggml_tensor *strengths(ggml_context *context, size_t i_slots,
                                       RowSet rows);  // F32 [1, n_lanes, n_rows]
  /// For each row and expert, the index into the experts of all slots: I32 [n_lanes, n_expert,
  /// n_rows].
  [[nodiscard]] ggml_tensor *expert_slots(ggml_context *context, size_t i_slots, RowSet rows,
                                          int64_t n_expert);
  /// Rows of an embedding's A: I32 [n_lanes * n_rows].
  [[nodiscard]] ggml_tensor *embed_rows(ggml_context *context, const StackedTarget &target);

  /// Fills every input made so far. `routing` has the shape given to the constructor; `tokens` are
  /// the ids of the step.
  void upload(const Routing &routing, const OutputRows &rows,
              std::span<const int32_t> tokens) const;

 private:
  struct Inputs {
    ggml_tensor *slots = nullptr;
    ggml_tensor *strengths = nullptr;
    ggml_tensor *expert_slots = nullptr;
  };

  void upload_rows(const Inputs &inputs, const SlotMap &map, const Routing &routing) const;
  void upload_embed_rows(const StackedTarget &target, ggml_tensor *rows, const Routing &routing,
                         std::span<const int32_t> tokens) const;

  const LoraStacks &stacks_;
  LoraShape shape_;
  std::array<int64_t, k_n_row_sets> n_rows_;
  std::map<std::pair<size_t, RowSet>, Inputs> inputs_;  // by slot map
  std::map<const StackedTarget *, ggml_tensor *> embed_rows_;
};

}  // namespace patchbay
