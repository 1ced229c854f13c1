#include "graph/paged_attention.h"

#include <cassert>
#include <vector>

#include "kernels/attention.h"

namespace patchbay {
namespace {

CacheNumber number_of(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return CacheNumber::f32;
    case GGML_TYPE_Q8_0:
      return CacheNumber::q8_0;
    default:
      assert(type == GGML_TYPE_F16);
      return CacheNumber::f16;
  }
}

bool follows(const SeqPos &place, const SeqPos &before) {
  return place.seq_id == before.seq_id && place.pos == before.pos + 1;
}

}  // namespace

PagedAttention::PagedAttention(const HParams &hparams, uint32_t n_swa, uint32_t block_size)
    : plan_({.n_embd_head = hparams.n_embd_head,
             .n_head = hparams.n_head,
             .n_head_kv = hparams.n_head_kv,
             .n_swa = n_swa,
             .block_size = block_size,
             .scale = hparams.attn_scale}) {}

void PagedAttention::set(const BlockTables &tables, std::span<const SeqPos> places,
                         uint32_t n_threads) {
  std::vector<AttentionRun> runs;
  for (size_t row = 0; row < places.size(); ++row) {
    if (row == 0 || !follows(places[row], places[row - 1])) {
      runs.push_back({.first_row = static_cast<uint32_t>(row),
                      .first_pos = static_cast<uint32_t>(places[row].pos),
                      .blocks = tables.table(places[row].seq_id).blocks});
    }
    ++runs.back().n_rows;
  }
  plan_.set(runs, n_threads);
}

ggml_tensor *PagedAttention::build(ggml_context *context, ggml_tensor *q, ggml_tensor *k,
                                   ggml_tensor *v) {
  if (!ggml_is_contiguous(q)) q = ggml_cont(context, q);
  ggml_tensor *sources[] = {q, k, v};
  return ggml_custom_4d(context, GGML_TYPE_F32, q->ne[0] * q->ne[1], q->ne[2], 1, 1, sources, 3,
                        compute, GGML_N_TASKS_MAX, this);
}

void PagedAttention::compute(ggml_tensor *dst, int i_thread, int n_threads, void *self) {
  AttentionPlan &plan = static_cast<PagedAttention *>(self)->plan_;
  const ggml_tensor *k = dst->src[1];
  const AttentionCache cache{
      .k = k->data, .v = dst->src[2]->data, .row_bytes = k->nb[1], .number = number_of(k->type)};
  run_attention(plan, cache, static_cast<const float *>(dst->src[0]->data),
                static_cast<float *>(dst->data), best_isa(), static_cast<uint32_t>(i_thread),
                static_cast<uint32_t>(n_threads));
}

}  // namespace patchbay
