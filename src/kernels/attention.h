#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention_plan.h"
#include "kernels/isa.h"

namespace patchbay {

enum class CacheNumber : uint8_t { f16, f32, q8_0 };

/// One layer's cache: blocks one after the other, in each the heads, in each of those a row per
/// token.
struct AttentionCache {
  const void *k = nullptr;
  const void *v = nullptr;
  size_t row_bytes = 0;  ///< n_embd_head numbers
  CacheNumber number = CacheNumber::f16;
};

/// One thread's part of a step's attention in one layer: softmax(scale q k^T) v of each row over
/// the keys of its sequence up to its own position, within the window. q, out: F32 [n_embd_head,
/// n_head, n_rows]. All of `n_threads` threads have to run, with equal arguments. The result of a
/// row depends on its own sequence only, bit for bit: not on other rows, threads, or on which
/// blocks it has.
void run_attention(AttentionPlan &plan, const AttentionCache &cache, const float *q, float *out,
                   Isa isa, uint32_t i_thread, uint32_t n_threads);

}  // namespace patchbay
