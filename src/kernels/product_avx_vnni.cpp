#include "kernels/product_loops.h"
#include "kernels/product_vectors256.h"

namespace patchbay {
namespace {

struct AvxVnni : Vectors256<AvxVnni> {
  /// start + sum of codes times inputs, 4 n inputs from `a` on.
  template <int max_code, int n>
  static Ints dot(const Codes *codes, const uint8_t *a, Ints start) {
#pragma GCC unroll 8
    for (int i = 0; i < n; ++i) {
      int32_t four = 0;
      __builtin_memcpy(&four, a + int64_t{4} * i, 4);
      start = _mm256_dpbusd_avx_epi32(start, codes[i], _mm256_set1_epi32(four));
    }
    return start;
  }
};

}  // namespace

extern constexpr ProductKernels k_products_avx_vnni = products_of<AvxVnni>();

}  // namespace patchbay
