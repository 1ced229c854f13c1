#pragma once

#include <ggml.h>

#include <span>

#include "kv/cell_table.h"

namespace patchbay {

/// Fills the additive mask of one step, F16 [n_kv, n_tokens]: 0 where a token may look, -inf where
/// not. A token sees the cells of its own sequence at its own and earlier positions; with `n_swa` >
/// 0 only the last n_swa of them, itself included.
void fill_mask(std::span<const SeqPos> cells, uint32_t n_kv, std::span<const SeqPos> tokens,
               uint32_t n_swa, std::span<ggml_fp16_t> mask);

}  // namespace patchbay
