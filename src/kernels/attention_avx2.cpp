#include <immintrin.h>

#include "kernels/attention_tile.h"

namespace patchbay {
namespace {

constexpr size_t k_lanes = 8;
constexpr size_t k_groups = k_tile_keys / k_lanes;
constexpr size_t k_together = 2;  // queries whose sums fit into the registers

void widen_f16(const CacheRows &rows) {
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    size_t j = 0;
    for (; j + k_lanes <= rows.n; j += k_lanes) {
      const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i *>(src + 2 * j));
      _mm256_storeu_ps(dst + j, _mm256_cvtph_ps(halves));
    }
    for (; j < rows.n; ++j) _mm_store_ss(dst + j, _mm_cvtph_ps(_mm_loadu_si16(src + 2 * j)));
  }
}

void widen_q8_0(const CacheRows &rows) {
  constexpr size_t k_block = 32;
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    for (size_t j = 0; j < rows.n; j += k_block, src += 2 + k_block) {
      const __m256 scale = _mm256_cvtph_ps(_mm_broadcastw_epi16(_mm_loadu_si16(src)));
      for (size_t l = 0; l < k_block; l += k_lanes) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i *>(src + 2 + l));
        const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
        _mm256_storeu_ps(dst + j + l, _mm256_mul_ps(scale, values));
      }
    }
  }
}

/// In each half of the result, lane i is the sum of that half of sums[i].
__m256 sum_halves(const __m256 sums[4]) {
  __m256d pairs[2];
  for (size_t i = 0; i < 2; ++i) {
    pairs[i] = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(sums[2 * i], sums[2 * i + 1]),
                                              _mm256_unpackhi_ps(sums[2 * i], sums[2 * i + 1])));
  }
  return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(pairs[0], pairs[1])),
                       _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[0], pairs[1])));
}

/// Half i of the result is the sum of the halves of fours[i].
__m256 sum_fours(const __m256 fours[2]) {
  return _mm256_add_ps(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
                       _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
}

/// Numbers j.. of a row of keys or values, F16 or F32.
template <bool IsF16>
__m256 load(const char *row, size_t j) {
  if constexpr (IsF16)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row + 2 * j)));
  return _mm256_loadu_ps(reinterpret_cast<const float *>(row) + j);
}

/// Queries i.. of the tile against 8 keys from `first` on. Keys and queries meet four keys at a
/// time, so that what is loaded is used by all of them; the order of each sum does not depend on Q.
template <bool IsF16, size_t Q>
void scores(const AttentionTile &tile, size_t i, size_t first, __m256 (&result)[Q]) {
  const float *q = tile.q + i * tile.n_padded;
  const char *k = static_cast<const char *>(tile.k) + first * tile.stride_bytes;
  __m256 fours[Q][2];
  for (size_t four = 0; four < 2; ++four, k += 4 * tile.stride_bytes) {
    __m256 sums[Q][4];
    for (auto &of_query : sums) {
      for (auto &sum : of_query) sum = _mm256_setzero_ps();
    }
    for (size_t j = 0; j < tile.n_padded; j += k_lanes) {
#pragma GCC unroll 4
      for (size_t key = 0; key < 4; ++key) {
        const __m256 part = load<IsF16>(k + key * tile.stride_bytes, j);
#pragma GCC unroll 4
        for (size_t l = 0; l < Q; ++l)
          sums[l][key] =
              _mm256_fmadd_ps(_mm256_loadu_ps(q + l * tile.n_padded + j), part, sums[l][key]);
      }
    }
    for (size_t l = 0; l < Q; ++l) fours[l][four] = sum_halves(sums[l]);
  }
  for (size_t l = 0; l < Q; ++l) result[l] = sum_fours(fours[l]);
}

/// exp(x) for x <= 0 to 2 ulp: 2^n * e^r with |r| <= ln(2)/2 and Taylor's series for e^r. Below
/// -87.3, where results leave the normal numbers, that of -87.3.
__m256 exp_negative(__m256 x) {
  // The second operand is what comes out of a NaN.
  x = _mm256_max_ps(_mm256_set1_ps(-87.3F), x);
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504F)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  // ln(2) in two parts, the first one short enough for an exact product with n.
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693359375F), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(-2.12194440e-4F), r);
  __m256 e = _mm256_set1_ps(1.0F / 5040);
  const float factors[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1, 1};
  for (const float factor : factors) e = _mm256_fmadd_ps(e, r, _mm256_set1_ps(factor));
  const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_mul_ps(e, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
}

/// All ones in the lanes of group `group` that the range holds.
__m256 seen(KeyRange range, size_t group) {
  const __m256i keys = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(group * k_lanes)),
                                        _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256i before = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(range.first)), keys);
  const __m256i in_front = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(range.end)), keys);
  return _mm256_castsi256_ps(_mm256_andnot_si256(before, in_front));
}

__m256 halves_swapped(__m256 x) { return _mm256_permute2f128_ps(x, x, 1); }

float largest_lane(__m256 x) {
  x = _mm256_max_ps(x, halves_swapped(x));
  x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4E));
  return _mm256_cvtss_f32(_mm256_max_ps(x, _mm256_permute_ps(x, 0xB1)));
}

float sum_of_lanes(__m256 x) {
  x = _mm256_add_ps(x, halves_swapped(x));
  x = _mm256_add_ps(x, _mm256_permute_ps(x, 0x4E));
  return _mm256_cvtss_f32(_mm256_add_ps(x, _mm256_permute_ps(x, 0xB1)));
}

/// From the scores of query i to the weights of its keys.
void soften(const AttentionTile &tile, size_t i, const __m256 (&score)[k_groups]) {
  __m256 most = score[0];
  for (size_t group = 1; group < k_groups; ++group) most = _mm256_max_ps(most, score[group]);
  const float before = tile.max[i];
  const float of_tile = largest_lane(most);
  const float largest = of_tile > before ? of_tile : before;
  __m256 sum = _mm256_setzero_ps();
  for (size_t group = 0; group < k_groups; ++group) {
    const __m256 weight =
        _mm256_and_ps(seen(tile.ranges[i], group),
                      exp_negative(_mm256_sub_ps(score[group], _mm256_set1_ps(largest))));
    _mm256_storeu_ps(tile.weights + i * k_tile_keys + group * k_lanes, weight);
    sum = _mm256_add_ps(sum, weight);
  }
  const float factor = _mm256_cvtss_f32(exp_negative(_mm256_set1_ps(before - largest)));
  tile.factors[i] = factor;
  tile.max[i] = largest;
  tile.sum[i] = tile.sum[i] * factor + sum_of_lanes(sum);
}

/// Weights of Q queries from i on, which see the same keys.
template <bool IsF16, size_t Q>
void weigh(const AttentionTile &tile, size_t i) {
  const KeyRange range = tile.ranges[i];
  const __m256 nothing = _mm256_set1_ps(-__builtin_inff());
  __m256 score[Q][k_groups];
  for (size_t group = 0; group < k_groups; ++group) {
    const bool is_seen = range.first < (group + 1) * k_lanes && range.end > group * k_lanes;
    __m256 of_group[Q];
    for (auto &each : of_group) each = nothing;
    if (is_seen) scores<IsF16, Q>(tile, i, group * k_lanes, of_group);
    for (size_t l = 0; l < Q; ++l)
      score[l][group] = _mm256_blendv_ps(nothing, of_group[l], seen(range, group));
  }
  for (size_t l = 0; l < Q; ++l) soften(tile, i + l, score[l]);
}

/// N vectors of the sums of Q queries from i on, which see the same keys, from column `first` on.
template <bool IsF16, size_t Q, size_t N>
void mix_columns(const AttentionTile &tile, size_t i, size_t first) {
  float *acc = tile.acc + i * tile.n_padded + first;
  const float *weights = tile.weights + i * k_tile_keys;
  const KeyRange range = tile.ranges[i];
  __m256 sums[Q][N];
  for (size_t l = 0; l < Q; ++l) {
    const __m256 factor = _mm256_set1_ps(tile.factors[i + l]);
    for (size_t j = 0; j < N; ++j)
      sums[l][j] = _mm256_mul_ps(factor, _mm256_loadu_ps(acc + l * tile.n_padded + j * k_lanes));
  }
  for (size_t key = range.first; key < range.end; ++key) {
    const char *v = static_cast<const char *>(tile.v) + key * tile.stride_bytes;
#pragma GCC unroll 4
    for (size_t j = 0; j < N; ++j) {
      const __m256 part = load<IsF16>(v, first + j * k_lanes);
#pragma GCC unroll 4
      for (size_t l = 0; l < Q; ++l)
        sums[l][j] =
            _mm256_fmadd_ps(_mm256_set1_ps(weights[l * k_tile_keys + key]), part, sums[l][j]);
    }
  }
  for (size_t l = 0; l < Q; ++l) {
    for (size_t j = 0; j < N; ++j)
      _mm256_storeu_ps(acc + l * tile.n_padded + j * k_lanes, sums[l][j]);
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
  });
  for_runs(tile, [&](size_t i, size_t n) {
    if (n == 1) mix<IsF16, 1>(tile, i);
    if (n == 2) mix<IsF16, 2>(tile, i);
  });
}

}  // namespace

extern constexpr AttentionKernels k_attention_avx2{.attend = attend<false>,
                                                   .attend_f16 = attend<true>,
                                                   .widen_f16 = widen_f16,
                                                   .widen_q8_0 = widen_q8_0};

}  // namespace patchbay
