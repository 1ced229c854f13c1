#include <immintrin.h>

#include "kernels/lora_jobs.h"

namespace patchbay {
namespace {

constexpr int64_t k_lanes = 16;

__m512 widen_half(__m256i halves) { return _mm512_cvtph_ps(halves); }
__m512 widen_bfloat(__m256i halves) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

/// Numbers from number `i` on as floats.
template <FactorType type>
__m512 load(const void *a, int64_t i) {
  if constexpr (type == FactorType::f32) {
    return _mm512_loadu_ps(static_cast<const char *>(a) + i * 4);
  } else {
    const __m256i halves =
        _mm256_loadu_si256(reinterpret_cast<const __m256i *>(static_cast<const char *>(a) + i * 2));
    return type == FactorType::f16 ? widen_half(halves) : widen_bfloat(halves);
  }
}

/// The same for the last numbers: those outside `mask` are zero and not read. Slower.
template <FactorType type>
__m512 load_last(const void *a, int64_t i, __mmask16 mask) {
  if constexpr (type == FactorType::f32) {
    return _mm512_maskz_loadu_ps(mask, static_cast<const char *>(a) + i * 4);
  } else {
    const __m256i halves = _mm256_maskz_loadu_epi16(mask, static_cast<const char *>(a) + i * 2);
    return type == FactorType::f16 ? widen_half(halves) : widen_bfloat(halves);
  }
}

/// One product of `n_rows` rows of A from `row` on with `n_cols` tokens from `token` on: each pair
/// has one vector of sums, so that it adds in the same order in a block of any size.
template <FactorType type, int n_rows, int n_cols>
void block(const ShrinkJob &job, int64_t row, int64_t token) {
  __m512 sums[n_rows][n_cols];
  for (auto &of_row : sums) {
    for (auto &sum : of_row) sum = _mm512_setzero_ps();
  }
  const int64_t n_whole = job.n_in / k_lanes * k_lanes;
  const float *const first_x = job.x + token * job.x_stride;
  for (int64_t i = 0; i < n_whole; i += k_lanes) {
    __m512 x[n_cols];
#pragma GCC unroll 8
    for (int t = 0; t < n_cols; ++t) x[t] = _mm512_loadu_ps(first_x + t * job.x_stride + i);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; ++r) {
      const __m512 a = load<type>(job.a, (row + r) * job.n_in + i);
#pragma GCC unroll 8
      for (int t = 0; t < n_cols; ++t) sums[r][t] = _mm512_fmadd_ps(a, x[t], sums[r][t]);
    }
  }
  const auto mask = static_cast<__mmask16>((1 << (job.n_in - n_whole)) - 1);
  for (int r = 0; r < n_rows; ++r) {
    for (int t = 0; t < n_cols; ++t) {
      if (mask != 0) {
        const __m512 a = load_last<type>(job.a, (row + r) * job.n_in + n_whole, mask);
        const __m512 x = _mm512_maskz_loadu_ps(mask, first_x + t * job.x_stride + n_whole);
        sums[r][t] = _mm512_fmadd_ps(a, x, sums[r][t]);
      }
      job.low[(token + t) * job.low_stride + row + r] =
          job.scale * _mm512_reduce_add_ps(sums[r][t]);
    }
  }
}

template <FactorType type>
void shrink(const ShrinkJob &job) {
  int64_t token = 0;
  for (; token + 4 <= job.n_tokens; token += 4) {
    int64_t row = 0;
    for (; row + 4 <= job.n_rank; row += 4) block<type, 4, 4>(job, row, token);
    for (; row < job.n_rank; ++row) block<type, 1, 4>(job, row, token);
  }
  for (; token < job.n_tokens; ++token) {
    // Row by row: A mostly comes from memory here, which one stream is read from twice as fast as
    // several at once.
    for (int64_t row = 0; row < job.n_rank; ++row) block<type, 1, 1>(job, row, token);
  }
}

}  // namespace

extern constexpr ShrinkKernels k_shrink_avx512{.f32 = shrink<FactorType::f32>,
                                               .f16 = shrink<FactorType::f16>,
                                               .bf16 = shrink<FactorType::bf16>};

}  // namespace patchbay
