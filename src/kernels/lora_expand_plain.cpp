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

void expand_plain(const ExpandJob &job) {
  switch (job.type) {
    case FactorType::f32:
      return expand<FactorType::f32>(job);
    case FactorType::f16:
      return expand<FactorType::f16>(job);
    case FactorType::bf16:
      return expand<FactorType::bf16>(job);
  }
}

}  // namespace patchbay
