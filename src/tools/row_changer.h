#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "model/hadamard.h"
#include "tools/row_chunks.h"
#include "tools/tensor_change.h"

namespace patchbay {

/// The changes of one tensor, ready to be applied to any of its rows. Rows are those of the base
/// as they are stored, Hadamard-folded ones included. Immutable; any thread.
class RowChanger {
 public:
  /// Numbers of the rows of a chunk: F32 [n_per_row, n_rows].
  using ReadRows = std::function<void(RowChunk chunk, std::span<float> out)>;

  /// `ne` of the tensor in ggml order; `folding` null: its rows are not folded. DoRA on a look-up
  /// table needs all of the table first, which `read` gives. `change` must outlive the object.
  RowChanger(const TensorChange &change, const std::array<int64_t, 4> &ne,
             const HadamardFolding *folding, uint32_t n_threads, const ReadRows &read);

  /// The rows of a chunk, which is within one expert, after all changes, in F32: `base` plus the
  /// sum of the changes, each against the base. Both F32 [n_per_row, n_rows].
  void apply(RowChunk chunk, std::span<const float> base, std::span<float> changed) const;

 private:
  /// A pair by the rows of its tensor: the change of row i is scale * coefficients_i basis.
  struct LowRank {
    int64_t n_rank = 0;
    float scale = 1;
    const Factor *coefficients = nullptr;  // [n_rank, all rows]
    std::vector<float> basis;              // [n_per_row, n_rank, n_expert]
    std::vector<float> lengths;            // DoRA: of each row; empty: none
    std::vector<float> gains;              // DoRA of a table: of each column; empty: none
  };

  [[nodiscard]] LowRank by_rows(const TensorChange::Pair &pair) const;
  [[nodiscard]] std::vector<float> column_gains(const LowRank &low_rank, const Factor &lengths,
                                                uint32_t n_threads, const ReadRows &read) const;
  void low_rank_rows(const LowRank &low_rank, RowChunk chunk, std::span<float> out) const;
  /// Whether the pair has no part in the expert of the chunk, as lengths that are all 0 say.
  [[nodiscard]] bool leaves_alone(const LowRank &low_rank, RowChunk chunk) const;
  void add(const LowRank &low_rank, RowChunk chunk, std::span<const float> base,
           std::span<float> changed) const;
  void replace(const TensorChange::NewNumbers &numbers, RowChunk chunk, std::span<const float> base,
               std::span<float> changed) const;
  void add_bias(const TensorChange::Pair &pair, std::span<float> changed) const;

  const TensorChange &change_;
  int64_t n_per_row_;
  int64_t n_per_expert_;
  int64_t n_rows_;
  const HadamardFolding *folding_;
  std::vector<LowRank> low_ranks_;
};

}  // namespace patchbay
