#include <immintrin.h>

#include "kernels/attention_loops.h"

namespace patchbay {
namespace {

constexpr size_t k_lanes = 16;

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

/// The vectors of AttentionLoops.
struct Avx512 {
  using Reg = __m512;
  static constexpr size_t k_lanes = patchbay::k_lanes;
  static constexpr size_t k_together = 4;

  static Reg set1(float x) { return _mm512_set1_ps(x); }
  static Reg load(const float *from) { return _mm512_loadu_ps(from); }
  static Reg load_f16(const void *from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i *>(from)));
  }
  static void store(float *to, Reg x) { _mm512_storeu_ps(to, x); }
  static Reg add(Reg x, Reg y) { return _mm512_add_ps(x, y); }
  static Reg sub(Reg x, Reg y) { return _mm512_sub_ps(x, y); }
  static Reg mul(Reg x, Reg y) { return _mm512_mul_ps(x, y); }
  static Reg max(Reg x, Reg y) { return _mm512_max_ps(x, y); }
  /// x y + z
  static Reg fmadd(Reg x, Reg y, Reg z) { return _mm512_fmadd_ps(x, y, z); }
  /// -x y + z
  static Reg fnmadd(Reg x, Reg y, Reg z) { return _mm512_fnmadd_ps(x, y, z); }
  /// To the nearest whole number.
  static Reg round(Reg x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  /// x 2^n for whole n.
  static Reg times_power_of_2(Reg x, Reg n) { return _mm512_scalef_ps(x, n); }

  static float first_lane(Reg x) { return _mm512_cvtss_f32(x); }
  static float largest_lane(Reg x) { return _mm512_reduce_max_ps(x); }
  static float sum_of_lanes(Reg x) { return _mm512_reduce_add_ps(x); }

  /// The lanes of group `group` that the range holds from `x`, the others from `otherwise`.
  static Reg select(KeyRange range, size_t group, Reg x, Reg otherwise) {
    const unsigned before_end = range.end == k_tile_keys ? ~0U : (1U << range.end) - 1U;
    const unsigned seen = before_end & ~((1U << range.first) - 1U);
    return _mm512_mask_mov_ps(otherwise, static_cast<__mmask16>(seen >> (group * k_lanes)), x);
  }

  /// In each quarter of the result, lane i is the sum of that quarter of sums[i].
  static Reg sum_parts(const Reg (&sums)[4]) {
    __m512d pairs[2];
    for (size_t i = 0; i < 2; ++i) {
      pairs[i] = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(sums[2 * i], sums[2 * i + 1]),
                                                _mm512_unpackhi_ps(sums[2 * i], sums[2 * i + 1])));
    }
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(pairs[0], pairs[1])),
                         _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[0], pairs[1])));
  }

  /// Quarter i of the result is the sum of the quarters of fours[i].
  static Reg sum_fours(const Reg (&fours)[4]) {
    Reg eights[2];
    for (size_t i = 0; i < 2; ++i) {
      eights[i] = _mm512_add_ps(_mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0x88),
                                _mm512_shuffle_f32x4(fours[2 * i], fours[2 * i + 1], 0xDD));
    }
    return _mm512_add_ps(_mm512_shuffle_f32x4(eights[0], eights[1], 0x88),
                         _mm512_shuffle_f32x4(eights[0], eights[1], 0xDD));
  }
};

}  // namespace

extern constexpr AttentionKernels k_attention_avx512{
    .attend = AttentionLoops<Avx512>::attend<false>,
    .attend_f16 = AttentionLoops<Avx512>::attend<true>,
    .widen_f16 = widen_f16,
    .widen_q8_0 = widen_q8_0};

}  // namespace patchbay
