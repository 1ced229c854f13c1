#include "kernels/product_loops.h"
#include "kernels/product_vectors256.h"

namespace patchbay {
namespace {

struct AvxVnniDot {
  template <int max_code, int n>
  static __m256i dot(const __m256i *codes, const uint8_t *a, __m256i start) {
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

extern constexpr ProductKernels k_products_avx_vnni = products_of<Vectors256<AvxVnniDot>>();

}  // namespace patchbay
