#pragma once

#include <cstddef>
#include <cstdint>

namespace patchbay {

/// Keys in a tile: positions are cut at multiples of it, so that what a query computes does not
/// depend on what else is computed.
constexpr uint32_t k_tile_keys = 32;

/// Rows of keys, values and queries are padded with zeros to a multiple of this many floats.
constexpr uint32_t k_row_padding = 16;

/// Which keys of a tile a query sees: [first, end); none when they are equal.
struct KeyRange {
  uint32_t first;
  uint32_t end;
};

/// Some queries of one head group against one tile of keys, with the state of their softmax so far
/// (online softmax, arXiv 1805.02867): after a tile, `max` is the largest score, `sum` that of
/// exp(score - max), `acc` that of exp(score - max) * v. A query that sees nothing of the tile
/// keeps its state.
struct AttentionTile {
  size_t n_queries;
  size_t n_padded;         // floats in a row
  const float *q;          // [n_padded, n_queries], scaled
  const void *k;           // k_tile_keys rows of n_padded numbers
  const void *v;           // the same
  size_t stride_bytes;     // of k and v
  const KeyRange *ranges;  // [n_queries]
  float *max;              // [n_queries]
  float *sum;              // [n_queries]
  float *acc;              // [n_padded, n_queries]
  float *weights;          // [k_tile_keys, n_queries], scratch
  float *factors;          // [n_queries], scratch
};

/// Rows of a cache to be widened to F32.
struct CacheRows {
  const void *src;
  size_t src_stride_bytes;
  size_t n_rows;
  size_t n;  // values in a row
  float *dst;
  size_t dst_stride;
};

/// The instruction set's part of attention. Plain functions: see docs/decisions/0004.
struct AttentionKernels {
  void (*attend)(const AttentionTile &tile);      // k and v are F32
  void (*attend_f16)(const AttentionTile &tile);  // k and v are F16; the same result, bit for bit
  void (*widen_f16)(const CacheRows &rows);
  void (*widen_q8_0)(
      const CacheRows &rows);  // n a multiple of 32; blocks of an F16 scale and 32 int8
};

extern const AttentionKernels k_attention_plain;
extern const AttentionKernels k_attention_avx2;
extern const AttentionKernels k_attention_avx512;

}  // namespace patchbay
