#include "kernels/lora_jobs.h"
#include "kernels/lora_number_plain.h"

namespace patchbay {
namespace {

template <FactorType type>
void expand(const ExpandJob &job) {
  for (int64_t first = 0; first < job.n_out; first += k_lora_tile) {
    for (int64_t t = 0; t < job.n_tokens; ++t) {
      const float *low = job.low + t * job.low_stride;
      float *y = job.y + t * job.y_stride + first;
      for (int64_t r = 0; r < job.n_rank; ++r) {
        const int64_t row = first * job.n_rank + r * k_lora_tile;
        for (int64_t o = 0; o < k_lora_tile; ++o) y[o] += low[r] * number_at<type>(job.b, row + o);
      }
    }
  }
}

}  // namespace

extern constexpr ExpandKernels k_expand_plain{.f32 = expand<FactorType::f32>,
                                              .f16 = expand<FactorType::f16>,
                                              .bf16 = expand<FactorType::bf16>};

}  // namespace patchbay
