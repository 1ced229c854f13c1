#pragma once

#include <ggml.h>

#include <deque>
#include <map>
#include <span>
#include <tuple>

#include "graph/packed_ops.h"
#include "model/packed_weight.h"

namespace patchbay {

/// Our own products of one graph: their nodes and what these read. An input is quantised once for
/// all weights that take it in the same form. A row's result does not depend, to the bit, on the
/// other rows.
class PackedProducts {
 public:
  /// A node and its data.
  struct Node {
    ggml_tensor *y = nullptr;
    PackedProduct *product = nullptr;
  };

  /// Weights of one input form times x F32 [n_in, n_rows]: F32 [sum of n_out, n_rows], the outputs
  /// of each weight after those of the one before.
  [[nodiscard]] Node multiply(ggml_context *context, std::span<const PackedWeight *const> weights,
                              ggml_tensor *x);

  /// Lets a node of multiply(), which is no part of a graph yet, end with `finish`, which reads
  /// `source` as src1 of it.
  static void finish_with(const Node &node, ggml_tensor *source,
                          const PackedProduct::Finish &finish);

  /// x F32 [n_in, 1 or n_used, n_rows], experts I32 [n_used, n_rows] -> F32 [n_out, n_used,
  /// n_rows].
  [[nodiscard]] ggml_tensor *multiply_experts(ggml_context *context, const PackedWeight &weight,
                                              ggml_tensor *x, ggml_tensor *experts);

 private:
  [[nodiscard]] ggml_tensor *panels_of(ggml_context *context, ggml_tensor *x, InputForm form);
  [[nodiscard]] ggml_tensor *order_of(ggml_context *context, ggml_tensor *experts,
                                      int64_t n_expert);
  [[nodiscard]] ggml_tensor *panels_of_experts(ggml_context *context, ggml_tensor *x,
                                               ggml_tensor *order, InputForm form);

  std::deque<PackedProduct> products_;
  // By input, the order of its rows (null: as they are) and form.
  std::map<std::tuple<const ggml_tensor *, const ggml_tensor *, InputForm>, ggml_tensor *> panels_;
  std::map<const ggml_tensor *, ggml_tensor *> orders_;  // by the tensor of experts
};

}  // namespace patchbay
