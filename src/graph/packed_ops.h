#pragma once

#include <ggml.h>

#include <cstdint>
#include <vector>

#include "graph/work_queue.h"
#include "model/packed_weight.h"

namespace patchbay {

// The operations of our own products, each computed by all threads of a step together; data lives
// with the graph. A token's panel data takes panel_token_bytes().

/// Weights of one input form that are multiplied by one node.
struct PackedProduct {
  struct Part {
    const PackedWeight *weight = nullptr;
    int64_t first_out = 0;  ///< where its outputs begin in a row of the result
  };
  std::vector<Part> parts;
  WorkQueue tiles;  ///< of all parts one after the other, and of all experts

  PackedProduct(std::vector<Part> weights, int64_t n_tiles, int64_t n_min)
      : parts(std::move(weights)), tiles(n_tiles, n_min) {}
};

// ggml_custom_op_t.

/// dst I8 [token bytes, n_rows], panels, from src0 x F32 [n_in, n_rows]. Data: an InputForm.
void round_input(ggml_tensor *dst, int i_thread, int n_threads, void *form);
/// dst F32 [sum of n_out, n_rows] from src0 panels. Data: a PackedProduct.
void multiply_packed(ggml_tensor *dst, int i_thread, int n_threads, void *product);

/// dst I32 [n_expert + 1 + n_used * n_rows] from src0 experts I32 [n_used, n_rows]: where each
/// expert's rows begin in what follows, and the end; then the (row, used) pairs, numbered like the
/// rows of a result [n_out, n_used, n_rows], sorted by expert. The first thread does it: ggml calls
/// an operation in all of them, whatever number of tasks it was given. Data: none.
void sort_by_expert(ggml_tensor *dst, int i_thread, int n_threads, void *data);
/// dst I8 [token bytes, n_used * n_rows], each expert's panels at its place in the order, from src0
/// x F32 [n_in, 1 or n_used, n_rows] and src1 the order. Data: an InputForm.
void round_input_of_experts(ggml_tensor *dst, int i_thread, int n_threads, void *form);
/// dst F32 [n_out, n_used, n_rows] from src0 panels and src1 the order. Data: a PackedProduct of
/// one part, the weight of all experts.
void multiply_packed_experts(ggml_tensor *dst, int i_thread, int n_threads, void *product);

}  // namespace patchbay
