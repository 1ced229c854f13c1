#include "kernels/product_loops.h"
#include "kernels/product_vectors256.h"

namespace patchbay {
namespace {

struct Avx2 : Vectors256<Avx2> {
  static __m256i inputs_at(const uint8_t *a) {
    int32_t four = 0;
    __builtin_memcpy(&four, a, 4);
    return _mm256_set1_epi32(four);
  }

  /// start + sum of codes times inputs, 4 n inputs from `a` on. As many sums of two products, of a
  /// code of up to max_code and an input of up to 128, as 16 bits hold are added there. Codes of
  /// eight bits would not hold even one: they are made signed, and nothing of them has to be taken
  /// back by `start`.
  template <int max_code, int n>
  static Ints dot(const Codes *codes, const uint8_t *a, Ints start) {
    const __m256i ones = _mm256_set1_epi16(1);
    if constexpr (max_code == 255) {
      __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
      for (int i = 0; i < n; ++i) {
        const __m256i code = _mm256_xor_si256(codes[i], _mm256_set1_epi8(-128));
        const __m256i input = _mm256_sign_epi8(inputs_at(a + int64_t{4} * i), code);
        const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(code), input);
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
      }
      return sum;
    } else {
      constexpr int k_fit = 32767 / (2 * 128 * max_code);
      constexpr int k_together = k_fit < n ? k_fit : n;
      static_assert(n % k_together == 0);
#pragma GCC unroll 8
      for (int i = 0; i < n; i += k_together) {
        __m256i pairs = _mm256_maddubs_epi16(codes[i], inputs_at(a + int64_t{4} * i));
#pragma GCC unroll 8
        for (int j = i + 1; j < i + k_together; ++j) {
          pairs = _mm256_add_epi16(pairs,
                                   _mm256_maddubs_epi16(codes[j], inputs_at(a + int64_t{4} * j)));
        }
        start = _mm256_add_epi32(start, _mm256_madd_epi16(pairs, ones));
      }
      return start;
    }
  }
};

}  // namespace

extern constexpr ProductKernels k_products_avx2 = products_of<Avx2>();

}  // namespace patchbay
