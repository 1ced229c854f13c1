#pragma once

#include "graph/graph.h"

namespace patchbay {

// The low-rank step out of standard ggml operations, for any backend and as the reference of every
// other form. One product per half whatever the number of adapters: the slots of a weight's
// adapters are the "experts" of ggml_mul_mat_id, the row's adapters are the chosen ones. Rows
// without an adapter use the zero slot, so their sum is y + 0 bit for bit. Each returns `y` itself
// when no token of the step wears an adapter on the weight.

/// x [n_in, n_rows], y [n_out, n_rows].
[[nodiscard]] ggml_tensor *add_lora_linear(Graph &g, const Weight &weight, ggml_tensor *x,
                                           ggml_tensor *y);

/// y [n_embd, n_tokens]: the rows looked up.
[[nodiscard]] ggml_tensor *add_lora_embed(Graph &g, const Weight &table, ggml_tensor *y);

/// x [n_in, 1 or n_used, n_rows], experts I32 [n_used, n_rows], y [n_out, n_used, n_rows].
[[nodiscard]] ggml_tensor *add_lora_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                            ggml_tensor *experts, ggml_tensor *y);

}  // namespace patchbay
