#include "kernels/product.h"

#include <algorithm>
#include <cassert>

#include "kernels/product_jobs.h"

namespace patchbay {
namespace {

/// Tiles that are used for all panels before the next ones: a part of a second-level cache.
constexpr int64_t k_chunk_bytes = 192 << 10;

using Kernel = ProductKernels::Kernel;

Kernel kernel_for(const ProductKernels &kernels, WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:
      return kernels.q4_0;
    case WeightFormat::q4_1:
      return kernels.q4_1;
    case WeightFormat::q5_0:
      return kernels.q5_0;
    case WeightFormat::q5_1:
      return kernels.q5_1;
    case WeightFormat::q8_0:
      return kernels.q8_0;
    case WeightFormat::q4_k:
      return kernels.q4_k;
    case WeightFormat::q5_k:
      return kernels.q5_k;
    case WeightFormat::q6_k:
      return kernels.q6_k;
    case WeightFormat::f16:
      return kernels.f16;
    case WeightFormat::bf16:
      return kernels.bf16;
  }
  return nullptr;
}

/// The best kernel that needs no more than `isa`, or null, and what it needs.
struct Choice {
  Isa isa = Isa::plain;
  Kernel kernel = nullptr;
};

Choice choose([[maybe_unused]] Isa isa, [[maybe_unused]] WeightFormat format) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512_bf16) {
    if (const Kernel kernel = kernel_for(k_products_avx512_bf16, format))
      return {Isa::avx512_bf16, kernel};
  }
  if (isa >= Isa::avx512_vnni)
    return {Isa::avx512_vnni, kernel_for(k_products_avx512_vnni, format)};
  if (isa == Isa::avx_vnni) return {Isa::avx_vnni, kernel_for(k_products_avx_vnni, format)};
  if (isa >= Isa::avx2) return {Isa::avx2, kernel_for(k_products_avx2, format)};
#endif
  return {};
}

}  // namespace

std::optional<Isa> product_isa(Isa isa, WeightFormat format) {
  const Choice choice = choose(isa, format);
  if (choice.kernel == nullptr) return std::nullopt;
  return choice.isa;
}

bool has_product(Isa isa, WeightFormat format) { return product_isa(isa, format).has_value(); }

void run_product(Isa isa, const ProductJob &job) {
  const Kernel kernel = choose(isa, job.format).kernel;
  const int64_t n_tile_bytes = tile_bytes(job.format, job.n_in);
  const int64_t n_token_bytes = panel_token_bytes(layout_of(job.format).input, job.n_in);
  const int64_t n_chunk = std::max<int64_t>(1, k_chunk_bytes / n_tile_bytes) * k_product_tile;
  for (int64_t row = 0; row < job.n_out; row += n_chunk) {
    for (int64_t token = 0; token < job.n_tokens; token += k_product_panel) {
      kernel({.tiles = job.tiles + row / k_product_tile * n_tile_bytes,
              .tile_stride = n_tile_bytes,
              .n_blocks = n_product_blocks(job.n_in),
              .n_out = std::min(n_chunk, job.n_out - row),
              .panel = job.panels + token * n_token_bytes,
              .n_tokens = std::min(k_product_panel, job.n_tokens - token),
              .y = job.y + (job.rows == nullptr ? token * job.y_stride : 0) + row,
              .y_stride = job.y_stride,
              .rows = job.rows == nullptr ? nullptr : job.rows + token});
    }
  }
}

}  // namespace patchbay
