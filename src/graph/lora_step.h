#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "graph/packed_ops.h"
#include "lora/routing.h"
#include "model/weights.h"

namespace patchbay {

class Graph;

/// Which rows of the step a tensor holds: all tokens, only those of which something is wanted, or
/// of these only those whose logits are.
enum class RowSet : uint8_t { all, outputs, logits };
constexpr size_t k_n_row_sets = 3;

/// Rows of a step, of the sets that are not all of them.
struct OutputRows {
  std::span<const int32_t> outputs;
  std::span<const int32_t> logits;  ///< the first ones of these
};

/// What of a step's routing shapes its graph. Steps with equal shapes can run the same graph with
/// other data.
struct LoraShape {
  /// Portable: lanes of the largest set. Fused: numbers in a row's low-rank vector.
  size_t n_width = 0;
  /// Portable, per slot map, and fused, per input of the base and then per norm of it: some row
  /// wears an adapter there.
  std::vector<bool> worn;
  /// Portable: which stacks the graph reads.
  uint64_t version = 0;

  bool operator==(const LoraShape &) const = default;
  [[nodiscard]] bool any() const {
    for (const bool one : worn) {
      if (one) return true;
    }
    return false;
  }
};

/// A base product: of one weight, or of several that are multiplied together because their rows lie
/// in one tensor or in tiles of our own products.
struct BaseProduct {
  std::span<const Weight *const> weights;
  ggml_tensor *y = nullptr;  // F32 [sum of n_out, n_rows]
  /// Of our own products: y's data, to which more may still be added. Null: of ggml's.
  PackedProduct *packed = nullptr;
};

/// The parts of the products' rows that belong to each weight: F32 [n_out, n_rows] each, views
/// where a product has several.
[[nodiscard]] std::vector<ggml_tensor *> split_products(ggml_context *context,
                                                        std::span<const BaseProduct> products);

/// What adapters change in one graph: adds its nodes while the graph is built, holds what they
/// read, and is filled anew for every run. One class per form. Each add function returns what it
/// was given when no token of the step wears an adapter there.
///
/// For a row that wears adapters i at strengths t_i, with y0 = W x of the base:
///   y = y0 + sum of t_i s_i B_i (A_i x) + t_i c_i                    a pair, and a bias's change c
///   y = y0 + sum of (g_i - 1) y0 + g_i t_i s_i B_i (A_i x)           a pair of DoRA, g_i of t_i
///   y = unit w + sum of t_i unit d_i                                 a norm, and its weight's
///   change
class LoraStep {
 public:
  LoraStep() = default;
  LoraStep(const LoraStep &) = delete;  // nodes refer to it
  LoraStep &operator=(const LoraStep &) = delete;
  virtual ~LoraStep() = default;

  /// The outputs of each weight of `products`, which all read `x` F32 [n_in, n_rows].
  [[nodiscard]] virtual std::vector<ggml_tensor *> add_linear(
      Graph &g, ggml_tensor *x, std::span<const BaseProduct> products) = 0;

  /// y F32 [n_embd, n_tokens]: the rows looked up.
  [[nodiscard]] virtual ggml_tensor *add_embed(Graph &g, const Weight &table, ggml_tensor *y) = 0;

  /// x F32 [n_in, 1 or n_used, n_rows], experts I32 [n_used, n_rows], y F32 [n_out, n_used,
  /// n_rows].
  [[nodiscard]] virtual ggml_tensor *add_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                                 ggml_tensor *experts, ggml_tensor *y) = 0;

  /// unit F32 [n, n_heads, n_rows] or [n, n_rows]: normed; y the same times the base's weight.
  [[nodiscard]] virtual ggml_tensor *add_norm(Graph &g, const Weight &weight, ggml_tensor *unit,
                                              ggml_tensor *y) = 0;

  /// An upper bound of the nodes that one weight adds.
  [[nodiscard]] virtual size_t max_nodes_per_weight() const = 0;

  /// Before each run. `routing` has the shape that the step was made for; `tokens` are the ids of
  /// the step.
  virtual void upload(const Routing &routing, const OutputRows &rows,
                      std::span<const int32_t> tokens) = 0;
};

}  // namespace patchbay
