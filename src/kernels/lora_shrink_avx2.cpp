#include <immintrin.h>

#include "kernels/lora_jobs.h"

namespace patchbay {
namespace {

constexpr int64_t k_lanes = 8;

template <FactorType type>
__m256 load(const void *a, int64_t i) {
  if constexpr (type == FactorType::f32) {
    return _mm256_loadu_ps(reinterpret_cast<const float *>(static_cast<const char *>(a) + i * 4));
  } else {
    const __m128i halves =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(static_cast<const char *>(a) + i * 2));
    return type == FactorType::f16
               ? _mm256_cvtph_ps(halves)
               : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
  }
}

/// The last `n` < k_lanes numbers from number `i` on, then zeros.
template <FactorType type>
__m256 load_last(const void *a, int64_t i, int64_t n) {
  constexpr int64_t k_size = type == FactorType::f32 ? 4 : 2;
  alignas(32) char padded[k_lanes * k_size] = {};
  __builtin_memcpy(padded, static_cast<const char *>(a) + i * k_size,
                   static_cast<unsigned long>(n * k_size));
  return load<type>(padded, 0);
}

float sum_of(__m256 v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/// One product of `n_rows` rows of A from `row` on with `n_cols` tokens from `token` on: each pair
/// has one vector of sums, so that it adds in the same order in a block of any size.
template <FactorType type, int n_rows, int n_cols>
void block(const ShrinkJob &job, int64_t row, int64_t token) {
  __m256 sums[n_rows][n_cols];
  for (auto &of_row : sums) {
    for (auto &sum : of_row) sum = _mm256_setzero_ps();
  }
  const int64_t n_whole = job.n_in / k_lanes * k_lanes;
  const float *const first_x = job.x + token * job.x_stride;
  for (int64_t i = 0; i < n_whole; i += k_lanes) {
    __m256 x[n_cols];
#pragma GCC unroll 8
    for (int t = 0; t < n_cols; ++t) x[t] = _mm256_loadu_ps(first_x + t * job.x_stride + i);
#pragma GCC unroll 8
    for (int r = 0; r < n_rows; ++r) {
      const __m256 a = load<type>(job.a, (row + r) * job.n_in + i);
#pragma GCC unroll 8
      for (int t = 0; t < n_cols; ++t) sums[r][t] = _mm256_fmadd_ps(a, x[t], sums[r][t]);
    }
  }
  const int64_t n_last = job.n_in - n_whole;
  for (int r = 0; r < n_rows; ++r) {
    for (int t = 0; t < n_cols; ++t) {
      if (n_last > 0) {
        const __m256 a = load_last<type>(job.a, (row + r) * job.n_in + n_whole, n_last);
        const __m256 x = load_last<FactorType::f32>(first_x + t * job.x_stride, n_whole, n_last);
        sums[r][t] = _mm256_fmadd_ps(a, x, sums[r][t]);
      }
      job.low[(token + t) * job.low_stride + row + r] = job.scale * sum_of(sums[r][t]);
    }
  }
}

template <FactorType type>
void shrink(const ShrinkJob &job) {
  int64_t token = 0;
  for (; token + 2 <= job.n_tokens; token += 2) {
    int64_t row = 0;
    for (; row + 4 <= job.n_rank; row += 4) block<type, 4, 2>(job, row, token);
    for (; row < job.n_rank; ++row) block<type, 1, 2>(job, row, token);
  }
  for (; token < job.n_tokens; ++token) {
    // Row by row: A mostly comes from memory here, which one stream is read from twice as fast as
    // several at once.
    for (int64_t row = 0; row < job.n_rank; ++row) block<type, 1, 1>(job, row, token);
  }
}

}  // namespace

extern constexpr ShrinkKernels k_shrink_avx2{.f32 = shrink<FactorType::f32>,
                                             .f16 = shrink<FactorType::f16>,
                                             .bf16 = shrink<FactorType::bf16>};

}  // namespace patchbay
