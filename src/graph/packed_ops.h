#pragma once

#include <ggml.h>

#include <cstdint>
#include <vector>

#include "base/rounding.h"
#include "graph/work_queue.h"
#include "model/packed_weight.h"

namespace patchbay {

// The operations of our own products, each computed by all threads of a step together; data lives
// with the graph. A token's panel data takes panel_token_bytes().

/// Neighbouring tiles that one thread computes together: as many rows as a tile of an adapter's B
/// has, so that the thread can add the expansion to them at once.
constexpr int64_t k_strip_rows = 2 * k_product_tile;

/// Weights of one input form that are multiplied by one node.
struct PackedProduct {
  struct Part {
    const PackedWeight *weight = nullptr;
    int64_t first_out = 0;  ///< where its outputs begin in a row of the result
  };
  /// What is still done to columns [first, last) of all rows of the result, whole strips of one
  /// part, by the thread that has just computed them.
  struct Finish {
    void (*op)(ggml_tensor *dst, int64_t first, int64_t last, const void *data) = nullptr;
    const void *data = nullptr;
  };
  std::vector<Part> parts;
  WorkQueue strips;  ///< of all parts one after the other, or of all experts that have rows
  Finish finish = {};

  /// `n_min`: strips that a thread takes at least.
  PackedProduct(std::vector<Part> weights, int64_t n_min)
      : parts(std::move(weights)), strips(n_min) {}
};

/// Strips of a weight, of each expert.
[[nodiscard]] inline int64_t n_strips(const PackedWeight &weight) {
  return ceil_div(weight.n_out, k_strip_rows);
}

/// The largest input of a lone row that every thread rounds for itself: for little, waiting for
/// another thread takes longer.
constexpr int64_t k_lone_row_bytes = 8 << 10;

// ggml_custom_op_t.

/// dst I8 [token bytes, n_rows], panels, from src0 x F32 [n_in, n_rows]. Data: an InputForm.
void quantise_input(ggml_tensor *dst, int i_thread, int n_threads, void *form);
/// dst F32 [sum of n_out, n_rows] from src0 panels. Data: a PackedProduct.
void multiply_packed(ggml_tensor *dst, int i_thread, int n_threads, void *product);
/// The same from src0 x F32 [n_in, 1], whose panel takes at most k_lone_row_bytes.
void multiply_packed_row(ggml_tensor *dst, int i_thread, int n_threads, void *product);

/// Numbers of an order of `n_pairs` (row, used) pairs.
[[nodiscard]] int64_t expert_order_size(int64_t n_expert, int64_t n_pairs);
/// dst I32 [expert_order_size()] from src0 experts I32 [n_used, n_rows]: the number of experts that
/// have rows; these experts, with room for all; where the pairs of each begin, and the end; then
/// the pairs, numbered like the rows of a result [n_out, n_used, n_rows], sorted by expert. The
/// first thread does it: ggml calls an operation in all of them, whatever number of tasks it was
/// given. Data: none.
void sort_by_expert(ggml_tensor *dst, int i_thread, int n_threads, void *data);
/// dst I8 [token bytes, n_used * n_rows], each expert's panels at its place in the order, from src0
/// x F32 [n_in, 1 or n_used, n_rows] and src1 the order. Data: an InputForm.
void quantise_experts_input(ggml_tensor *dst, int i_thread, int n_threads, void *form);
/// dst F32 [n_out, n_used, n_rows] from src0 panels and src1 the order. Data: a PackedProduct of
/// one part, the weight of all experts.
void multiply_packed_experts(ggml_tensor *dst, int i_thread, int n_threads, void *product);

}  // namespace patchbay
