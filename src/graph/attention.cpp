#include "graph/blocks.h"
#include "graph/linear.h"

namespace patchbay {
namespace {

/// x [n_embd_head, n_heads, n_tokens], rotated by the step's positions.
ggml_tensor *rope(Graph &g, ggml_tensor *x, const AttentionOptions &options) {
  const HParams &hp = g.hparams();
  const RopeParams &rope = hp.is_swa(options.il) ? hp.rope_swa : hp.rope;
  ggml_tensor *freqs = options.rope_freqs == nullptr ? nullptr : options.rope_freqs->tensor;
  return ggml_rope_ext(g.context(), x, g.inputs().positions, freqs, static_cast<int>(hp.n_rot),
                       rope.neox ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL,
                       static_cast<int>(rope.n_ctx_orig), rope.freq_base, rope.freq_scale,
                       rope.ext_factor, rope.attn_factor, rope.beta_fast, rope.beta_slow);
}

/// A projection [n, n_tokens], its rows perhaps with gaps between them, cut into heads: a view
/// [n_embd_head, n_heads, n_tokens], or normed per head where the model does.
ggml_tensor *by_head(Graph &g, ggml_tensor *y, const Weight &norm) {
  const auto n_embd_head = static_cast<int64_t>(g.hparams().n_embd_head);
  y = ggml_view_3d(g.context(), y, n_embd_head, y->ne[0] / n_embd_head, y->ne[1],
                   ggml_row_size(y->type, n_embd_head), y->nb[1], 0);
  return norm ? rms_norm(g, norm, y) : y;
}

/// `rows` without gaps: values may be a part of a product for several weights, with the others'
/// rows in between.
ggml_tensor *whole(Graph &g, ggml_tensor *rows) {
  return ggml_is_contiguous(rows) ? rows : ggml_cont(g.context(), rows);
}

/// Writes the step's rows [n_embd_head, n_head_kv, n_tokens] into their cells of `cache`, whose
/// rows are tokens or heads of tokens.
void store(Graph &g, ggml_tensor *cache, ggml_tensor *rows, ggml_tensor *cells) {
  ggml_tensor *flat = ggml_reshape_2d(g.context(), whole(g, rows), cache->ne[0], cells->ne[0]);
  g.expand(ggml_set_rows(g.context(), cache, flat, cells));
}

/// Attention over a mask meets every cell: what one sequence may not see is multiplied by 0. So an
/// infinity of one would be a NaN of all, and what enters the cache is kept within F16's range.
ggml_tensor *finite(Graph &g, ggml_tensor *rows) {
  constexpr float k_largest = 65504;
  // ggml's clamp walks over gaps between rows as if they were rows.
  return ggml_clamp(g.context(), whole(g, rows), -k_largest, k_largest);
}

/// The first n_kv cells by head: a view [n_embd_head, n_kv, n_head_kv].
ggml_tensor *cells_by_head(Graph &g, ggml_tensor *cache, int64_t n_kv) {
  const HParams &hp = g.hparams();
  return ggml_view_3d(g.context(), cache, hp.n_embd_head, n_kv, hp.n_head_kv, cache->nb[1],
                      ggml_row_size(cache->type, hp.n_embd_head), 0);
}

/// q [n_embd_head, n_head, n_tokens] against all cells under the step's mask -> the same, by head.
ggml_tensor *masked_attention(Graph &g, ggml_tensor *q, uint32_t il) {
  ggml_context *c = g.context();
  ggml_tensor *mask = g.cell_inputs(il).mask;
  const int64_t n_kv = mask->ne[0];
  ggml_tensor *heads =
      ggml_flash_attn_ext(c, ggml_permute(c, q, 0, 2, 1, 3), cells_by_head(g, g.kv().k(il), n_kv),
                          cells_by_head(g, g.kv().v(il), n_kv), mask, g.hparams().attn_scale,
                          /*max_bias=*/0, /*logit_softcap=*/0);
  ggml_flash_attn_ext_set_prec(heads, GGML_PREC_F32);
  return heads;
}

/// Stores the step's keys and values, then attends.
ggml_tensor *attend(Graph &g, ggml_tensor *q, ggml_tensor *k, ggml_tensor *v, uint32_t il) {
  const auto &[cells, mask, paged] = g.cell_inputs(il);
  store(g, g.kv().k(il), mask == nullptr ? k : finite(g, k), cells);
  store(g, g.kv().v(il), mask == nullptr ? v : finite(g, v), cells);
  if (mask != nullptr) return masked_attention(g, q, il);
  return paged->build(g.context(), q, g.kv().k(il), g.kv().v(il));
}

}  // namespace

ggml_tensor *attention(Graph &g, const AttentionWeights &w, ggml_tensor *x,
                       const AttentionOptions &options) {
  const auto [q_rows, k_rows, v_rows] = linear_group(g, std::array{&w.q, &w.k, &w.v}, x);
  // The keys' norm is what they are computed by, the queries' is not.
  ggml_tensor *k = rope(g, by_head(g, k_rows, w.k_norm), options);
  g.note_kv(w.k.weight, w.v.weight);
  ggml_tensor *q = rope(g, by_head(g, q_rows, w.q_norm), options);
  ggml_tensor *v = by_head(g, v_rows, {});
  ggml_tensor *heads = attend(g, q, k, v, options.il);
  return linear(g, w.output, ggml_reshape_2d(g.context(), heads, g.hparams().n_embd_q(), x->ne[1]));
}

}  // namespace patchbay
