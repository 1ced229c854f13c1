#include "kernels/product_loops.h"
#include "kernels/product_vectors512.h"

namespace patchbay {
namespace {

struct Avx512Vnni : Vectors512<Avx512Vnni> {
  /// start + sum of codes times inputs, 4 n inputs from `a` on.
  template <int max_code, int n>
  static Ints dot(const Codes *codes, const uint8_t *a, Ints start) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
      int32_t four = 0;
      __builtin_memcpy(&four, a + int64_t{4} * i, 4);
      start = _mm512_dpbusd_epi32(start, codes[i], _mm512_set1_epi32(four));
    }
    return start;
  }
};

}  // namespace

extern constexpr ProductKernels k_products_avx512_vnni = products_of<Avx512Vnni>();

}  // namespace patchbay
