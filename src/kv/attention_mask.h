#pragma once

#include <ggml.h>

#include <span>

#include "kv/block_tables.h"

namespace patchbay {

/// Fills the additive mask of one step over the cells of a pool, F16 [n_kv, n_tokens]: 0 where a
/// token may look, -inf where not. A token sees the cells of its own sequence at its own and
/// earlier positions; with `n_swa` > 0 only the last n_swa of them, itself included. n_kv covers
/// every block in use.
void fill_mask(const BlockTables &tables, uint32_t n_kv, std::span<const SeqPos> tokens,
               uint32_t n_swa, std::span<ggml_fp16_t> mask);

}  // namespace patchbay
