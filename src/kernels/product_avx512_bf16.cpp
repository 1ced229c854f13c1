#include "kernels/product_loops.h"
#include "kernels/product_vectors512.h"

namespace patchbay {
namespace {

struct Avx512Bf16 : Vectors512<Avx512Bf16> {
  /// sum + the products of two BF16 numbers per row with two of the input.
  static Floats add_pairs(Floats sum, Codes rows, int32_t inputs) {
    // Not _mm512_set1_epi32(): Clang 16 crashes over what its optimiser makes of that here.
    const __m512i both = _mm512_broadcastd_epi32(_mm_cvtsi32_si128(inputs));
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(rows),
                            reinterpret_cast<__m512bh>(both));
  }
};

}  // namespace

extern constexpr ProductKernels k_products_avx512_bf16{.bf16 = ProductLoops<Avx512Bf16>::bf16};

}  // namespace patchbay
