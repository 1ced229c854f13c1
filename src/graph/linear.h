#pragma once

#include <array>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace patchbay {

// The seam: the only functions that read a weight that adapters may change, and the only place
// where LoRA enters a graph. For every row (token) of the step:  y = W x + b + the changes that its
// adapters make to this weight, see LoraStep. Of a Hadamard-folded weight only the base product
// reads the transformed input: adapters are trained on the plain one.

/// x F32 [n_in, n_rows] -> F32 [n_out, n_rows]. The bias is added when the layer has one.
[[nodiscard]] ggml_tensor *linear(Graph &g, const LinearWeights &layer, ggml_tensor *x);
[[nodiscard]] ggml_tensor *linear(Graph &g, const Weight &weight, ggml_tensor *x);

/// Layers that read one input: the output of each, F32 [n_out, n_rows]. Where the store keeps their
/// rows in one tensor, one product serves them all; outputs are then views with gaps between rows.
[[nodiscard]] std::vector<ggml_tensor *> linear_group(Graph &g,
                                                      std::span<const LinearWeights *const> layers,
                                                      ggml_tensor *x);

template <size_t n>
[[nodiscard]] std::array<ggml_tensor *, n> linear_group(
    Graph &g, const std::array<const LinearWeights *, n> &layers, ggml_tensor *x) {
  const auto outputs = linear_group(g, std::span<const LinearWeights *const>(layers), x);
  std::array<ggml_tensor *, n> all{};
  for (size_t i = 0; i < n; ++i) all[i] = outputs[i];
  return all;
}

/// Rows of a table [n_embd, n_vocab] by the step's token ids -> F32 [n_embd, n_tokens].
[[nodiscard]] ggml_tensor *embed(Graph &g, const Weight &table);

/// Products with the experts chosen for each row. weight [n_in, n_out, n_expert]; x F32 [n_in, 1 or
/// n_used, n_rows]; experts I32 [n_used, n_rows] -> F32 [n_out, n_used, n_rows].
[[nodiscard]] ggml_tensor *linear_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                          ggml_tensor *experts);

/// RMS norm over ne[0], times the weight: F32 [n, ..., n_rows] -> the same shape. The epsilon is
/// the model's.
[[nodiscard]] ggml_tensor *rms_norm(Graph &g, const Weight &weight, ggml_tensor *x);

}  // namespace patchbay
