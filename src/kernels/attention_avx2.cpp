#include <immintrin.h>

#include "kernels/attention_loops.h"

namespace patchbay {
namespace {

constexpr size_t k_lanes = 8;

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

/// The vectors of AttentionLoops.
struct Avx2 {
  using Reg = __m256;
  static constexpr size_t k_lanes = patchbay::k_lanes;
  static constexpr size_t k_together = 2;

  static Reg set1(float x) { return _mm256_set1_ps(x); }
  static Reg load(const float *from) { return _mm256_loadu_ps(from); }
  static Reg load_f16(const void *from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i *>(from)));
  }
  static void store(float *to, Reg x) { _mm256_storeu_ps(to, x); }
  static Reg add(Reg x, Reg y) { return _mm256_add_ps(x, y); }
  static Reg sub(Reg x, Reg y) { return _mm256_sub_ps(x, y); }
  static Reg mul(Reg x, Reg y) { return _mm256_mul_ps(x, y); }
  static Reg max(Reg x, Reg y) { return _mm256_max_ps(x, y); }
  /// x y + z
  static Reg fmadd(Reg x, Reg y, Reg z) { return _mm256_fmadd_ps(x, y, z); }
  /// -x y + z
  static Reg fnmadd(Reg x, Reg y, Reg z) { return _mm256_fnmadd_ps(x, y, z); }
  /// To the nearest whole number.
  static Reg round(Reg x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// x 2^n for whole n whose power is a normal number.
  static Reg times_power_of_2(Reg x, Reg n) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23)));
  }

  static float first_lane(Reg x) { return _mm256_cvtss_f32(x); }
  static float largest_lane(Reg x) {
    x = _mm256_max_ps(x, halves_swapped(x));
    x = _mm256_max_ps(x, _mm256_permute_ps(x, 0x4E));
    return first_lane(_mm256_max_ps(x, _mm256_permute_ps(x, 0xB1)));
  }
  static float sum_of_lanes(Reg x) {
    x = _mm256_add_ps(x, halves_swapped(x));
    x = _mm256_add_ps(x, _mm256_permute_ps(x, 0x4E));
    return first_lane(_mm256_add_ps(x, _mm256_permute_ps(x, 0xB1)));
  }

  /// The lanes of group `group` that the range holds from `x`, the others from `otherwise`.
  static Reg select(KeyRange range, size_t group, Reg x, Reg otherwise) {
    const auto all = [](size_t n) { return _mm256_set1_epi32(static_cast<int>(n)); };
    const __m256i keys =
        _mm256_add_epi32(all(group * k_lanes), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
    const __m256i before = _mm256_cmpgt_epi32(all(range.first), keys);
    const __m256i in_front = _mm256_cmpgt_epi32(all(range.end), keys);
    const __m256i seen = _mm256_andnot_si256(before, in_front);
    return _mm256_blendv_ps(otherwise, x, _mm256_castsi256_ps(seen));
  }

  /// In each half of the result, lane i is the sum of that half of sums[i].
  static Reg sum_parts(const Reg (&sums)[4]) {
    __m256d pairs[2];
    for (size_t i = 0; i < 2; ++i) {
      pairs[i] = _mm256_castps_pd(_mm256_add_ps(_mm256_unpacklo_ps(sums[2 * i], sums[2 * i + 1]),
                                                _mm256_unpackhi_ps(sums[2 * i], sums[2 * i + 1])));
    }
    return _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(pairs[0], pairs[1])),
                         _mm256_castpd_ps(_mm256_unpackhi_pd(pairs[0], pairs[1])));
  }

  /// Half i of the result is the sum of the halves of fours[i].
  static Reg sum_fours(const Reg (&fours)[2]) {
    return _mm256_add_ps(_mm256_permute2f128_ps(fours[0], fours[1], 0x20),
                         _mm256_permute2f128_ps(fours[0], fours[1], 0x31));
  }

 private:
  static Reg halves_swapped(Reg x) { return _mm256_permute2f128_ps(x, x, 1); }
};

}  // namespace

extern constexpr AttentionKernels k_attention_avx2{.attend = AttentionLoops<Avx2>::attend<false>,
                                                   .attend_f16 = AttentionLoops<Avx2>::attend<true>,
                                                   .widen_f16 = widen_f16,
                                                   .widen_q8_0 = widen_q8_0};

}  // namespace patchbay
