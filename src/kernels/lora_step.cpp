#include "kernels/lora_step.h"

#include <algorithm>
#include <array>

namespace patchbay {
namespace {

const ShrinkKernels &shrink_kernels([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return k_shrink_avx512;
  if (isa >= Isa::avx2) return k_shrink_avx2;
#endif
  return k_shrink_plain;
}

const ExpandKernels &expand_kernels([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return k_expand_avx512;
  if (isa >= Isa::avx2) return k_expand_avx2;
#endif
  return k_expand_plain;
}

/// Runs a job by the kernel for the type of its factor.
template <class Kernels, class Job>
void run(const Kernels &kernels, const Job &job) {
  switch (job.type) {
    case FactorType::f32:
      return kernels.f32(job);
    case FactorType::f16:
      return kernels.f16(job);
    case FactorType::bf16:
      return kernels.bf16(job);
  }
}

int64_t size_of(FactorType type) { return type == FactorType::f32 ? 4 : 2; }

/// The last tile, of which only `n_out` columns are in `y`: computed on the side.
void expand_part_of_tile(Isa isa, ExpandJob job) {
  constexpr int64_t k_rows = 8;
  std::array<float, k_rows * k_lora_tile> side{};
  const int64_t n_out = job.n_out;
  for (int64_t first = 0; first < job.n_tokens; first += k_rows) {
    const int64_t n = std::min(k_rows, job.n_tokens - first);
    float *const y = job.y + first * job.y_stride;
    for (int64_t t = 0; t < n; ++t)
      std::copy_n(y + t * job.y_stride, n_out, side.data() + t * k_lora_tile);
    ExpandJob part = job;
    part.n_out = k_lora_tile;
    part.low = job.low + first * job.low_stride;
    part.n_tokens = n;
    part.y = side.data();
    part.y_stride = k_lora_tile;
    run(expand_kernels(isa), part);
    for (int64_t t = 0; t < n; ++t)
      std::copy_n(side.data() + t * k_lora_tile, n_out, y + t * job.y_stride);
  }
}

}  // namespace

void lora_shrink(Isa isa, const ShrinkJob &job) { run(shrink_kernels(isa), job); }

void lora_expand(Isa isa, const ExpandJob &job) {
  ExpandJob whole = job;
  whole.n_out = job.n_out / k_lora_tile * k_lora_tile;
  if (whole.n_out > 0) run(expand_kernels(isa), whole);
  if (whole.n_out == job.n_out) return;
  ExpandJob part = job;
  part.b = static_cast<const char *>(job.b) + whole.n_out * job.n_rank * size_of(job.type);
  part.y = job.y + whole.n_out;
  part.n_out = job.n_out - whole.n_out;
  expand_part_of_tile(isa, part);
}

}  // namespace patchbay
