#pragma once

#include "graph/graph.h"

namespace patchbay {

// The seam: the only functions that read a base weight, and the only place where LoRA enters a
// graph. For every row (token) of the step:  y = W x + b + sum_i strength_i * scale_i * B_i (A_i
// x), over the row's adapter set. Of a Hadamard-folded weight only the base product reads the
// transformed input: adapters are trained on the plain one.

/// x F32 [n_in, n_rows] -> F32 [n_out, n_rows]. The bias is added when the layer has one.
[[nodiscard]] ggml_tensor *linear(Graph &g, const LinearWeights &layer, ggml_tensor *x);
[[nodiscard]] ggml_tensor *linear(Graph &g, const Weight &weight, ggml_tensor *x);

/// Rows of a table [n_embd, n_vocab] by the step's token ids -> F32 [n_embd, n_tokens].
[[nodiscard]] ggml_tensor *embed(Graph &g, const Weight &table);

/// Products with the experts chosen for each row. weight [n_in, n_out, n_expert]; x F32 [n_in, 1 or
/// n_used, n_rows]; experts I32 [n_used, n_rows] -> F32 [n_out, n_used, n_rows].
[[nodiscard]] ggml_tensor *linear_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                          ggml_tensor *experts);

}  // namespace patchbay
