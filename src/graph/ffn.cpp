#include "graph/blocks.h"
#include "graph/linear.h"

namespace patchbay {
namespace {

/// gelu(gate) * up with the tanh form of GELU (arXiv 1606.08415), which is x sigmoid(u) for u = x t
/// and t = 2 sqrt(2 / pi) (1 + 0.044715 x^2). ggml's own operation reads a table of F16 values,
/// which moves the logits of a small F32 model by 3e-3; silu(u) * up / t is the same number by way
/// of its exact silu, and t is never 0.
ggml_tensor *gelu_gated(ggml_context *c, ggml_tensor *gate, ggml_tensor *up) {
  constexpr float k_twice_sqrt_2_over_pi = 1.5957691216F;
  constexpr float k_cubic = 0.044715F;
  ggml_tensor *t = ggml_scale_bias(c, ggml_sqr(c, gate), k_twice_sqrt_2_over_pi * k_cubic,
                                   k_twice_sqrt_2_over_pi);
  return ggml_swiglu_split(c, ggml_mul(c, gate, t), ggml_div(c, up, t));
}

/// act(gate) * up
ggml_tensor *gated(ggml_context *c, ggml_tensor *gate, ggml_tensor *up, Activation activation) {
  return activation == Activation::silu ? ggml_swiglu_split(c, gate, up) : gelu_gated(c, gate, up);
}

/// Softmax weight of each chosen expert, made to sum to one per row: F32 [1, n_used, n_rows].
ggml_tensor *expert_weights(ggml_context *c, ggml_tensor *probs, ggml_tensor *experts) {
  const int64_t n_used = experts->ne[0];
  const int64_t n_rows = experts->ne[1];
  ggml_tensor *weights =
      ggml_get_rows(c, ggml_reshape_3d(c, probs, 1, probs->ne[0], n_rows), experts);
  weights = ggml_reshape_2d(c, weights, n_used, n_rows);
  weights = ggml_div(c, weights, ggml_sum_rows(c, weights));
  return ggml_reshape_3d(c, weights, 1, n_used, n_rows);
}

}  // namespace

ggml_tensor *ffn(Graph &g, const FfnWeights &w, ggml_tensor *x, Activation activation) {
  const auto [gate, up] = linear_group(g, std::array{&w.gate, &w.up}, x);
  return linear(g, w.down, gated(g.context(), gate, up, activation));
}

ggml_tensor *moe(Graph &g, const MoeWeights &w, ggml_tensor *x, Activation activation) {
  ggml_context *c = g.context();
  ggml_tensor *probs = ggml_soft_max(c, linear(g, w.router, x));  // [n_expert, n_rows]
  ggml_tensor *experts = ggml_argsort_top_k(c, probs, static_cast<int>(g.hparams().n_expert_used));
  ggml_tensor *weights = expert_weights(c, probs, experts);

  ggml_tensor *shared = ggml_reshape_3d(c, x, x->ne[0], 1, x->ne[1]);
  ggml_tensor *gate = linear_experts(g, w.gate, shared, experts);
  ggml_tensor *up = linear_experts(g, w.up, shared, experts);
  ggml_tensor *down = linear_experts(g, w.down, gated(c, gate, up, activation),
                                     experts);  // [n_embd, n_used, n_rows]
  down = ggml_mul(c, down, weights);

  ggml_tensor *sum = nullptr;
  for (int64_t i = 0; i < down->ne[1]; ++i) {
    ggml_tensor *one = ggml_view_2d(c, down, down->ne[0], down->ne[2], down->nb[2],
                                    static_cast<size_t>(i) * down->nb[1]);
    sum = sum == nullptr ? one : ggml_add(c, sum, one);
  }
  // A lone expert is a view with gaps between rows; later blocks reshape.
  return down->ne[1] == 1 ? ggml_cont(c, sum) : sum;
}

}  // namespace patchbay
