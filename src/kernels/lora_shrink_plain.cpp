#include <array>

#include "kernels/lora_jobs.h"
#include "kernels/lora_number_plain.h"

namespace patchbay {
namespace {

// As many sums as a compiler can keep in vectors of any width; added up in one fixed order.
constexpr int64_t k_sums = 16;

template <FactorType type>
float dot(const void *a, int64_t first, const float *x, int64_t n) {
  std::array<float, k_sums> sums{};
  for (int64_t i = 0; i < n; i += k_sums) {
    const int64_t n_here = n - i < k_sums ? n - i : k_sums;
    for (int64_t j = 0; j < n_here; ++j)
      sums[static_cast<size_t>(j)] += number_at<type>(a, first + i + j) * x[i + j];
  }
  float sum = 0;
  for (const float part : sums) sum += part;
  return sum;
}

template <FactorType type>
void shrink(const ShrinkJob &job) {
  for (int64_t t = 0; t < job.n_tokens; ++t) {
    for (int64_t r = 0; r < job.n_rank; ++r) {
      job.low[t * job.low_stride + r] =
          job.scale * dot<type>(job.a, r * job.n_in, job.x + t * job.x_stride, job.n_in);
    }
  }
}

}  // namespace

extern constexpr ShrinkKernels k_shrink_plain{.f32 = shrink<FactorType::f32>,
                                              .f16 = shrink<FactorType::f16>,
                                              .bf16 = shrink<FactorType::bf16>};

}  // namespace patchbay
