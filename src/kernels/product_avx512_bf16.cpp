#include <immintrin.h>

#include "kernels/product_loops.h"

namespace patchbay {
namespace {

/// What a product of BF16 numbers needs of AVX-512, with its instruction for pairs of them.
struct Avx512Bf16 {
  using Codes = __m512i;
  using Floats = __m512;
  static constexpr int64_t k_rows = 16;
  static constexpr int k_halves = 1;
  static constexpr int64_t k_together = 16;

  static Codes load_codes(const uint8_t *bytes, int /*half*/) { return _mm512_loadu_si512(bytes); }
  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats add_pairs(Floats sum, Codes rows, int32_t inputs) {
    const __m512i both = _mm512_set1_epi32(inputs);
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(rows),
                            reinterpret_cast<__m512bh>(both));
  }
  static void store(float *y, Floats values, int64_t n_rows) {
    const uint32_t all = (1U << static_cast<uint32_t>(n_rows)) - 1U;
    _mm512_mask_storeu_ps(y, static_cast<__mmask16>(all), values);
  }
};

}  // namespace

extern constexpr ProductKernels k_products_avx512_bf16{.bf16 = ProductLoops<Avx512Bf16>::bf16};

}  // namespace patchbay
