#pragma once

#include "graph/graph.h"

namespace patchbay {

// What the base product of a Hadamard-folded weight needs around it. Without a rotation each
// returns what it was given.

/// x F32 [n_in, ...] as `weight` reads it: F(x (.) signs), the same shape.
[[nodiscard]] ggml_tensor *input_of(Graph &g, const Weight &weight, ggml_tensor *x);

/// Rows looked up in `table`, F32 [n_embd, n_rows], as they were before folding: F(row) (.) signs.
[[nodiscard]] ggml_tensor *plain_rows(Graph &g, const Weight &table, ggml_tensor *rows);

}  // namespace patchbay
