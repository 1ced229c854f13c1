#include "kernels/lora_step.h"

#include <algorithm>
#include <array>

namespace patchbay {
namespace {

void expand_whole_tiles(Isa isa, const ExpandJob &job) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return expand_avx512(job);
  if (isa == Isa::avx2) return expand_avx2(job);
#endif
  expand_plain(job);
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
    expand_whole_tiles(isa, part);
    for (int64_t t = 0; t < n; ++t)
      std::copy_n(side.data() + t * k_lora_tile, n_out, y + t * job.y_stride);
  }
}

}  // namespace

void lora_shrink([[maybe_unused]] Isa isa, const ShrinkJob &job) {
#if defined(__x86_64__)
  if (isa == Isa::avx512) return shrink_avx512(job);
  if (isa == Isa::avx2) return shrink_avx2(job);
#endif
  shrink_plain(job);
}

void lora_expand(Isa isa, const ExpandJob &job) {
  ExpandJob whole = job;
  whole.n_out = job.n_out / k_lora_tile * k_lora_tile;
  if (whole.n_out > 0) expand_whole_tiles(isa, whole);
  if (whole.n_out == job.n_out) return;
  ExpandJob part = job;
  part.b = static_cast<const char *>(job.b) + whole.n_out * job.n_rank * size_of(job.type);
  part.y = job.y + whole.n_out;
  part.n_out = job.n_out - whole.n_out;
  expand_part_of_tile(isa, part);
}

}  // namespace patchbay
