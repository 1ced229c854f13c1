#include <immintrin.h>

#include "kernels/lora_jobs.h"

namespace patchbay {
namespace {

constexpr int64_t k_lanes = 8;

template <FactorType type>
__m256 load(const void *b, int64_t i) {
  if constexpr (type == FactorType::f32) {
    return _mm256_loadu_ps(reinterpret_cast<const float *>(static_cast<const char *>(b) + i * 4));
  } else {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(static_cast<const char *>(b) + i * 2));
    return type == FactorType::f16
               ? _mm256_cvtph_ps(halves)
               : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
}

/// `n_vectors` vectors of outputs, from column `column` of the tile at `first` on, for `n_cols`
/// tokens from `token` on.
template <FactorType type, int n_vectors, int n_cols>
void block(const ExpandJob &job, int64_t first, int64_t column, int64_t token) {
  float *const y = job.y + token * job.y_stride + first + column;
  const float *const low = job.low + token * job.low_stride;
  __m256 sums[n_cols][n_vectors];
#pragma GCC unroll 8
  for (int t = 0; t < n_cols; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; ++v)
      sums[t][v] = _mm256_loadu_ps(y + t * job.y_stride + v * k_lanes);
  }
  for (int64_t r = 0; r < job.n_rank; ++r) {
    const int64_t row = first * job.n_rank + r * k_lora_tile + column;
    __m256 b[n_vectors];
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; ++v) b[v] = load<type>(job.b, row + v * k_lanes);
#pragma GCC unroll 8
    for (int t = 0; t < n_cols; ++t) {
      const __m256 factor = _mm256_broadcast_ss(low + t * job.low_stride + r);
#pragma GCC unroll 8
      for (int v = 0; v < n_vectors; ++v) sums[t][v] = _mm256_fmadd_ps(factor, b[v], sums[t][v]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < n_cols; ++t) {
#pragma GCC unroll 8
    for (int v = 0; v < n_vectors; ++v)
      _mm256_storeu_ps(y + t * job.y_stride + v * k_lanes, sums[t][v]);
  }
}

template <FactorType type>
void expand(const ExpandJob &job) {
  constexpr int64_t k_half = k_lora_tile / 2;
  for (int64_t first = 0; first < job.n_out; first += k_lora_tile) {
    int64_t token = 0;
    // Sixteen registers hold half a tile of four tokens, or a whole one of a single token.
    for (; token + 4 <= job.n_tokens; token += 4) {
      block<type, 2, 4>(job, first, 0, token);
      block<type, 2, 4>(job, first, k_half, token);
    }
    for (; token < job.n_tokens; ++token) block<type, 4, 1>(job, first, 0, token);
  }
}

}  // namespace

extern constexpr ExpandKernels k_expand_avx2{.f32 = expand<FactorType::f32>,
                                             .f16 = expand<FactorType::f16>,
                                             .bf16 = expand<FactorType::bf16>};

}  // namespace patchbay
