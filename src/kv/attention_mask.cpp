#include "kv/attention_mask.h"

#include <algorithm>
#include <cassert>
#include <limits>

namespace patchbay {

void fill_mask(const BlockTables &tables, uint32_t n_kv, std::span<const SeqPos> tokens,
               uint32_t n_swa, std::span<ggml_fp16_t> mask) {
  assert(mask.size() == n_kv * tokens.size());
  const ggml_fp16_t visible = ggml_fp32_to_fp16(0);
  const ggml_fp16_t hidden = ggml_fp32_to_fp16(-std::numeric_limits<float>::infinity());
  std::ranges::fill(mask, hidden);
  for (const auto &token : tokens) {
    const auto row = mask.first(n_kv);
    mask = mask.subspan(n_kv);
    const int32_t n_seen =
        n_swa == 0 ? token.pos + 1 : std::min(token.pos + 1, static_cast<int32_t>(n_swa));
    for (int32_t pos = token.pos + 1 - n_seen; pos <= token.pos; ++pos)
      row[static_cast<size_t>(tables.cell({token.seq_id, pos}))] = visible;
  }
}

}  // namespace patchbay
