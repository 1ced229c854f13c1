#include "kv/attention_mask.h"

#include <cassert>
#include <limits>

namespace patchbay {
namespace {

bool sees(const SeqPos &token, const SeqPos &cell, uint32_t n_swa) {
  if (cell.seq_id != token.seq_id || cell.pos > token.pos) return false;
  return n_swa == 0 || token.pos - cell.pos < static_cast<int32_t>(n_swa);
}

}  // namespace

void fill_mask(std::span<const SeqPos> cells, uint32_t n_kv, std::span<const SeqPos> tokens,
               uint32_t n_swa, std::span<ggml_fp16_t> mask) {
  assert(n_kv <= cells.size() && mask.size() == n_kv * tokens.size());
  const ggml_fp16_t visible = ggml_fp32_to_fp16(0);
  const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (const auto &token : tokens) {
    for (uint32_t i_cell = 0; i_cell < n_kv; ++i_cell) {
      mask[i++] = sees(token, cells[i_cell], n_swa) ? visible : hidden;
    }
  }
}

}  // namespace patchbay
