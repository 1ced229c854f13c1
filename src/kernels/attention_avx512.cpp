#include <immintrin.h>

#include "kernels/attention_tile.h"

namespace patchbay {
namespace {

constexpr size_t k_lanes = 16;
constexpr size_t k_groups = k_tile_keys / k_lanes;
constexpr size_t k_together = 4;  // queries whose sums fit into the registers

void widen_f16(const CacheRows &rows) {
  const size_t n_tail = rows.n % k_lanes;
  const auto tail = static_cast<__mmask16>((1U << n_tail) - 1U);
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    size_t j = 0;
    for (; j + k_lanes <= rows.n; j += k_lanes) {
      const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(src + 2 * j));
      _mm512_storeu_ps(dst + j, _mm512_cvtph_ps(halves));
    }
    // Masked stores are several times slower on some processors.
    if (n_tail == 0) continue;
    const __m256i halves = _mm256_maskz_loadu_epi16(tail, src + 2 * j);
    _mm512_mask_storeu_ps(dst + j, tail, _mm512_cvtph_ps(halves));
  }
}

void widen_q8_0(const CacheRows &rows) {
  constexpr size_t k_block = 32;
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    for (size_t j = 0; j < rows.n; j += k_block, src += 2 + k_block) {
      const __m512 scale = _mm512_cvtph_ps(_mm256_broadcastw_epi16(_mm_loadu_si16(src)));
      for (size_t l = 0; l < k_block; l += k_lanes) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(src + 2 + l));
        const __m512 values = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
        _mm512_storeu_ps(dst + j + l, _mm512_mul_ps(scale, values));
      }
    }
  }
}

/// In each quarter of the result, lane i is the sum of that quarter of sums[i].
__m512 sum_quarters(const __m512 sums[4]) {
  __m512d pairs[2];
  for (size_t i = 0; i < 2; ++i) {
    pairs[i] = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(sums[2 * i], sums[2 * i + 1]),
                                              _mm512_unpackhi_ps(sums[2 * i], sums[2 * i + 1])));
  }
  return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(pairs[0], pairs[1])),
                       _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[0], pairs[1])));
}

/// Quarter i of the result is the sum of the quarters of fours[i].
__m512 sum_fours(const __m512 fours[4]) {
  __m512 eights[2];
  for (size_t i = 0; i < 2; ++i) {
    eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0x88),
                              _mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0xDD));
  }
  return _mm512_add_ps(_mm512_shuffle_f32x4(eights[0], eights[1], 0x88),
                       _mm512_shuffle_f32x4(eights[0], eights[1], 0xDD));
}

/// Numbers j.. of a row of keys or values, F16 or F32.
template <bool IsF16>
__m512 load(const char *row, size_t j) {
  if constexpr (IsF16)
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(row + 2 * j)));
  return _mm512_loadu_ps(reinterpret_cast<const float *>(row) + j);
}

/// Queries i.. of the tile against 16 keys from `first` on. Keys and queries meet four keys at a
/// time, so that what is loaded is used by all of them; the order of each sum does not depend on Q.
template <bool IsF16, size_t Q>
void scores(const AttentionTile &tile, size_t i, size_t first, __m512 (&result)[Q]) {
  const float *q = tile.q + i * tile.n_padded;
  const char *k = static_cast<const char *>(tile.k) + first * tile.stride_bytes;
  __m512 fours[Q][4];
  for (size_t four = 0; four < 4; ++four, k += 4 * tile.stride_bytes) {
    __m512 sums[Q][4];
    for (auto &of_query : sums) {
      for (auto &sum : of_query) sum = _mm512_setzero_ps();
    }
    for (size_t j = 0; j < tile.n_padded; j += k_lanes) {
#pragma GCC unroll 4
      for (size_t key = 0; key < 4; ++key) {
        const __m512 part = load<IsF16>(k + key * tile.stride_bytes, j);
#pragma GCC unroll 4
        for (size_t l = 0; l < Q; ++l)
          sums[l][key] =
              _mm512_fmadd_ps(_mm512_loadu_ps(q + l * tile.n_padded + j), part, sums[l][key]);
      }
    }
    for (size_t l = 0; l < Q; ++l) fours[l][four] = sum_quarters(sums[l]);
  }
  for (size_t l = 0; l < Q; ++l) result[l] = sum_fours(fours[l]);
}

/// exp(x) for x <= 0 to 2 ulp: 2^n * e^r with |r| <= ln(2)/2 and Taylor's series for e^r. Below
/// -87.3, where results leave the normal numbers, that of -87.3.
__m512 exp_negative(__m512 x) {
  // The second operand is what comes out of a NaN.
  x = _mm512_max_ps(_mm512_set1_ps(-87.3F), x);
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504F)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln(2) in two parts, the first one short enough for an exact product with n.
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 e = _mm512_set1_ps(1.0F / 5040);
  const float factors[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1, 1};
  for (const float factor : factors) e = _mm512_fmadd_ps(e, r, _mm512_set1_ps(factor));
  return _mm512_scalef_ps(e, n);
}

/// The keys of a range, a bit each.
unsigned seen(KeyRange range) {
  const unsigned before_end = range.end == k_tile_keys ? ~0U : (1U << range.end) - 1U;
  return before_end & ~((1U << range.first) - 1U);
}

/// From the scores of query i to the weights of its keys.
void soften(const AttentionTile &tile, size_t i, const __m512 (&score)[k_groups]) {
  const float before = tile.max[i];
  const float of_tile = _mm512_reduce_max_ps(_mm512_max_ps(score[0], score[1]));
  const float largest = of_tile > before ? of_tile : before;
  __m512 sum = _mm512_setzero_ps();
  for (size_t group = 0; group < k_groups; ++group) {
    const auto lanes = static_cast<__mmask16>(seen(tile.ranges[i]) >> (group * k_lanes));
    const __m512 weight = _mm512_maskz_mov_ps(
        lanes, exp_negative(_mm512_sub_ps(score[group], _mm512_set1_ps(largest))));
    _mm512_storeu_ps(tile.weights + i * k_tile_keys + group * k_lanes, weight);
    sum = _mm512_add_ps(sum, weight);
  }
  const float factor = _mm512_cvtss_f32(exp_negative(_mm512_set1_ps(before - largest)));
  tile.factors[i] = factor;
  tile.max[i] = largest;
  tile.sum[i] = tile.sum[i] * factor + _mm512_reduce_add_ps(sum);
}

/// Weights of Q queries from i on, which see the same keys.
template <bool IsF16, size_t Q>
void weigh(const AttentionTile &tile, size_t i) {
  const __m512 nothing = _mm512_set1_ps(-__builtin_inff());
  __m512 score[Q][k_groups];
  for (size_t group = 0; group < k_groups; ++group) {
    const auto lanes = static_cast<__mmask16>(seen(tile.ranges[i]) >> (group * k_lanes));
    __m512 of_group[Q];
    for (auto &each : of_group) each = nothing;
    if (lanes != 0) scores<IsF16, Q>(tile, i, group * k_lanes, of_group);
    for (size_t l = 0; l < Q; ++l)
      score[l][group] = _mm512_mask_mov_ps(nothing, lanes, of_group[l]);
  }
  for (size_t l = 0; l < Q; ++l) soften(tile, i + l, score[l]);
}

/// N vectors of the sums of Q queries from i on, which see the same keys, from column `first` on.
template <bool IsF16, size_t Q, size_t N>
void mix_columns(const AttentionTile &tile, size_t i, size_t first) {
  float *acc = tile.acc + i * tile.n_padded + first;
  const float *weights = tile.weights + i * k_tile_keys;
  const KeyRange range = tile.ranges[i];
  __m512 sums[Q][N];
  for (size_t l = 0; l < Q; ++l) {
    const __m512 factor = _mm512_set1_ps(tile.factors[i + l]);
    for (size_t j = 0; j < N; ++j)
      sums[l][j] = _mm512_mul_ps(factor, _mm512_loadu_ps(acc + l * tile.n_padded + j * k_lanes));
  }
  for (size_t key = range.first; key < range.end; ++key) {
    const char *v = static_cast<const char *>(tile.v) + key * tile.stride_bytes;
#pragma GCC unroll 4
    for (size_t j = 0; j < N; ++j) {
      const __m512 part = load<IsF16>(v, first + j * k_lanes);
#pragma GCC unroll 4
      for (size_t l = 0; l < Q; ++l)
        sums[l][j] =
            _mm512_fmadd_ps(_mm512_set1_ps(weights[l * k_tile_keys + key]), part, sums[l][j]);
    }
  }
  for (size_t l = 0; l < Q; ++l) {
    for (size_t j = 0; j < N; ++j)
      _mm512_storeu_ps(acc + l * tile.n_padded + j * k_lanes, sums[l][j]);
  }
}

template <bool IsF16, size_t Q>
void mix(const AttentionTile &tile, size_t i) {
  constexpr size_t k_columns = 4;
  size_t first = 0;
  for (; first + k_columns * k_lanes <= tile.n_padded; first += k_columns * k_lanes)
    mix_columns<IsF16, Q, k_columns>(tile, i, first);
  for (; first < tile.n_padded; first += k_lanes) mix_columns<IsF16, Q, 1>(tile, i, first);
}

/// Calls each(i, n) for each run of n <= k_together queries from i on that see the same keys, if
/// there are any.
template <class Each>
void for_runs(const AttentionTile &tile, const Each &each) {
  const auto is_same = [&](size_t i, size_t j) {
    return j < tile.n_queries && tile.ranges[j].first == tile.ranges[i].first &&
           tile.ranges[j].end == tile.ranges[i].end;
  };
  for (size_t i = 0; i < tile.n_queries;) {
    size_t n = 1;
    while (n < k_together && is_same(i, i + n)) ++n;
    if (tile.ranges[i].first != tile.ranges[i].end) each(i, n);
    i += n;
  }
}

template <bool IsF16>
void attend(const AttentionTile &tile) {
  for_runs(tile, [&](size_t i, size_t n) {
    if (n == 1) weigh<IsF16, 1>(tile, i);
    if (n == 2) weigh<IsF16, 2>(tile, i);
    if (n == 3) weigh<IsF16, 3>(tile, i);
    if (n == 4) weigh<IsF16, 4>(tile, i);
  });
  for_runs(tile, [&](size_t i, size_t n) {
    if (n == 1) mix<IsF16, 1>(tile, i);
    if (n == 2) mix<IsF16, 2>(tile, i);
    if (n == 3) mix<IsF16, 3>(tile, i);
    if (n == 4) mix<IsF16, 4>(tile, i);
  });
}

}  // namespace

extern constexpr AttentionKernels k_attention_avx512{.attend = attend<false>,
                                                     .attend_f16 = attend<true>,
                                                     .widen_f16 = widen_f16,
                                                     .widen_q8_0 = widen_q8_0};

}  // namespace patchbay
