#pragma once

#include "graph/graph.h"

namespace patchbay {

struct AttentionOptions {
  uint32_t il = 0;                     ///< whose cache tensors
  const Weight *rope_freqs = nullptr;  ///< divisors of the rope frequencies, if the model has them
};

/// Self-attention of one layer over the KV cache: writes the step's keys and values into its cells,
/// then attends with the model's mask (that of sliding-window layers where the layer is one). x F32
/// [n_embd, n_tokens] -> the same shape.
[[nodiscard]] ggml_tensor *attention(Graph &g, const AttentionWeights &w, ggml_tensor *x,
                                     const AttentionOptions &options);

enum class Activation { silu, gelu };

/// Gated feed-forward: down(act(gate(x)) * up(x)). x F32 [n_embd, n_rows] -> the same shape.
[[nodiscard]] ggml_tensor *ffn(Graph &g, const FfnWeights &w, ggml_tensor *x,
                               Activation activation);

/// Mixture of experts as Mixtral has it (arXiv 2401.04088): softmax over the router, the best
/// n_expert_used of each row, their weights made to sum to one. x F32 [n_embd, n_rows] -> the same
/// shape.
[[nodiscard]] ggml_tensor *moe(Graph &g, const MoeWeights &w, ggml_tensor *x,
                               Activation activation);

}  // namespace patchbay
