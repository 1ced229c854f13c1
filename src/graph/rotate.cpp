#include "graph/rotate.h"

namespace patchbay {
namespace {

/// The transform of every column of x [n, ...] by `matrix` [n, n]. The hint lets a backend use its
/// fast transform, which takes n log n instead of n^2 steps; others multiply.
ggml_tensor *transform(ggml_context *c, ggml_tensor *matrix, ggml_tensor *x) {
  ggml_tensor *y = ggml_mul_mat(c, matrix, x);
  ggml_mul_mat_set_hint(y, GGML_HINT_SRC0_IS_HADAMARD);
  return y;
}

/// [n, m, ...] -> [m, n, ...]
ggml_tensor *transposed(ggml_context *c, ggml_tensor *x) {
  return ggml_cont(c, ggml_permute(c, x, 1, 0, 2, 3));
}

/// F of every row of x [n_in, ...].
ggml_tensor *transform_blocks(ggml_context *c, const Rotation &rotation, ggml_tensor *x) {
  const int64_t n_inner = rotation.inner->ne[0];
  const int64_t n_outer = rotation.outer == nullptr ? 1 : rotation.outer->ne[0];
  const int64_t n_blocks = ggml_nelements(x) / (n_inner * n_outer);
  ggml_tensor *y = ggml_reshape_3d(c, x, n_inner, n_outer, n_blocks);
  y = transform(c, rotation.inner, y);
  if (rotation.outer != nullptr) {
    y = transposed(c, transform(c, rotation.outer, transposed(c, y)));
  }
  return ggml_reshape(c, y, x);
}

}  // namespace

ggml_tensor *input_of(Graph &g, const Weight &weight, ggml_tensor *x) {
  if (weight.rotation == nullptr) return x;
  const Rotation &rotation = *weight.rotation;
  ggml_tensor *&turned = g.rotated(x, rotation);
  if (turned != nullptr) return turned;
  ggml_tensor *flipped = rotation.signs == nullptr ? x : ggml_mul(g.context(), x, rotation.signs);
  turned = transform_blocks(g.context(), rotation, flipped);
  return turned;
}

ggml_tensor *plain_rows(Graph &g, const Weight &table, ggml_tensor *rows) {
  if (table.rotation == nullptr) return rows;
  const Rotation &rotation = *table.rotation;
  ggml_tensor *turned = transform_blocks(g.context(), rotation, rows);
  return rotation.signs == nullptr ? turned : ggml_mul(g.context(), turned, rotation.signs);
}

}  // namespace patchbay
