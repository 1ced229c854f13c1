#include <immintrin.h>

#include "kernels/lora_jobs.h"

namespace patchbay {
namespace {

constexpr int64_t k_lanes = 16;

template <FactorType type>
__m512 load(const void *b, int64_t i) {
  if constexpr (type == FactorType::f32) {
    return _mm512_loadu_ps(static_cast<const char *>(b) + i * 4);
  } else {
    const __m256i halves =
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(static_cast<const char *>(b) + i * 2));
    return type == FactorType::f16
               ? _mm512_cvtph_ps(halves)
               : _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
  }
}

/// The tile of outputs from `first` on for `n_cols` tokens from `token` on: two vectors each.
template <FactorType type, int n_cols>
void block(const ExpandJob &job, int64_t first, int64_t token) {
  float *const y = job.y + token * job.y_stride + first;
  const float *const low = job.low + token * job.low_stride;
  __m512 left[n_cols];
  __m512 right[n_cols];
#pragma GCC unroll 8
  for (int t = 0; t < n_cols; ++t) {
    left[t] = _mm512_loadu_ps(y + t * job.y_stride);
    right[t] = _mm512_loadu_ps(y + t * job.y_stride + k_lanes);
  }
  for (int64_t r = 0; r < job.n_rank; ++r) {
    const int64_t row = first * job.n_rank + r * k_lora_tile;
    const __m512 b_left = load<type>(job.b, row);
    const __m512 b_right = load<type>(job.b, row + k_lanes);
#pragma GCC unroll 8
    for (int t = 0; t < n_cols; ++t) {
      const __m512 factor = _mm512_set1_ps(low[t * job.low_stride + r]);
      left[t] = _mm512_fmadd_ps(factor, b_left, left[t]);
      right[t] = _mm512_fmadd_ps(factor, b_right, right[t]);
    }
  }
#pragma GCC unroll 8
  for (int t = 0; t < n_cols; ++t) {
    _mm512_storeu_ps(y + t * job.y_stride, left[t]);
    _mm512_storeu_ps(y + t * job.y_stride + k_lanes, right[t]);
  }
}

template <FactorType type>
void expand(const ExpandJob &job) {
  for (int64_t first = 0; first < job.n_out; first += k_lora_tile) {
    int64_t token = 0;
    for (; token + 8 <= job.n_tokens; token += 8) block<type, 8>(job, first, token);
    for (; token + 4 <= job.n_tokens; token += 4) block<type, 4>(job, first, token);
    for (; token < job.n_tokens; ++token) block<type, 1>(job, first, token);
  }
}

}  // namespace

extern constexpr ExpandKernels k_expand_avx512{.f32 = expand<FactorType::f32>,
                                               .f16 = expand<FactorType::f16>,
                                               .bf16 = expand<FactorType::bf16>};

}  // namespace patchbay
