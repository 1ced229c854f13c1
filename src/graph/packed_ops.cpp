#include "graph/packed_ops.h"

#include <algorithm>

#include "kernels/product.h"
#include "kernels/product_panels.h"

namespace patchbay {
namespace {

const float *row_of(const ggml_tensor *x, int64_t i1, int64_t i2 = 0) {
  return reinterpret_cast<const float *>(static_cast<const char *>(x->data) +
                                         static_cast<size_t>(i1) * x->nb[1] +
                                         static_cast<size_t>(i2) * x->nb[2]);
}

/// What sort_by_expert() leaves.
struct ExpertOrder {
  const int32_t *starts;  // [n_expert + 1]
  const int32_t *pairs;

  ExpertOrder(const ggml_tensor *order, int64_t n_pairs)
      : starts(static_cast<const int32_t *>(order->data)), pairs(starts + order->ne[0] - n_pairs) {}
};

}  // namespace

void round_input(ggml_tensor *dst, int i_thread, int n_threads, void *form) {
  const ggml_tensor *x = dst->src[0];
  const int64_t n_rows = x->ne[1];
  const int64_t end = n_rows * (i_thread + 1) / n_threads;
  for (int64_t row = n_rows * i_thread / n_threads; row < end; ++row) {
    const int64_t first = row / k_product_panel * k_product_panel;
    fill_panel(*static_cast<const InputForm *>(form),
               {.x = row_of(x, row),
                .n_in = x->ne[0],
                .panel = static_cast<uint8_t *>(dst->data) + first * dst->ne[0],
                .n_tokens = std::min(k_product_panel, n_rows - first),
                .i_token = row - first});
  }
}

void multiply_packed(ggml_tensor *dst, int /*i_thread*/, int n_threads, void *product) {
  auto &[parts, tiles] = *static_cast<PackedProduct *>(product);
  const ggml_tensor *panels = dst->src[0];
  tiles.work(n_threads, [&](int64_t first, int64_t last) {
    for (const auto &[weight, first_out] : parts) {
      const int64_t begin = std::max<int64_t>(first, 0);
      const int64_t end = std::min(last, weight->n_tiles());
      if (begin < end) {
        const int64_t first_row = begin * k_product_tile;
        run_product(best_isa(), {.format = weight->format,
                                 .tiles = weight->tile(0, begin),
                                 .n_in = weight->n_in,
                                 .n_out = std::min(end * k_product_tile, weight->n_out) - first_row,
                                 .panels = static_cast<const uint8_t *>(panels->data),
                                 .n_tokens = dst->ne[1],
                                 .y = static_cast<float *>(dst->data) + first_out + first_row,
                                 .y_stride = dst->ne[0]});
      }
      first -= weight->n_tiles();
      last -= weight->n_tiles();
    }
  });
}

void sort_by_expert(ggml_tensor *dst, int i_thread, int /*n_threads*/, void * /*data*/) {
  if (i_thread > 0) return;
  const ggml_tensor *experts = dst->src[0];
  const int64_t n_used = experts->ne[0];
  const int64_t n_pairs = n_used * experts->ne[1];
  auto *starts = static_cast<int32_t *>(dst->data);
  const int64_t n_expert = dst->ne[0] - n_pairs - 1;
  int32_t *pairs = starts + n_expert + 1;
  const auto expert_of = [&](int64_t pair) {
    return *reinterpret_cast<const int32_t *>(static_cast<const char *>(experts->data) +
                                              static_cast<size_t>(pair % n_used) * experts->nb[0] +
                                              static_cast<size_t>(pair / n_used) * experts->nb[1]);
  };
  // Counting sort: counts, then where each expert ends, then down to where it begins.
  std::fill_n(starts, n_expert + 1, 0);
  for (int64_t pair = 0; pair < n_pairs; ++pair) ++starts[expert_of(pair)];
  for (int64_t expert = 1; expert <= n_expert; ++expert) starts[expert] += starts[expert - 1];
  for (int64_t pair = n_pairs - 1; pair >= 0; --pair)
    pairs[--starts[expert_of(pair)]] = static_cast<int32_t>(pair);
}

void round_input_of_experts(ggml_tensor *dst, int i_thread, int n_threads, void *form) {
  const ggml_tensor *x = dst->src[0];
  const int64_t n_pairs = dst->ne[1];
  const int64_t n_used = n_pairs / x->ne[2];
  const ExpertOrder order(dst->src[1], n_pairs);
  int64_t expert = 0;
  const int64_t end = n_pairs * (i_thread + 1) / n_threads;
  for (int64_t i = n_pairs * i_thread / n_threads; i < end; ++i) {
    while (i >= order.starts[expert + 1]) ++expert;
    const int64_t in_expert = i - order.starts[expert];
    const int64_t first = i - in_expert % k_product_panel;
    const int64_t pair = order.pairs[i];
    fill_panel(*static_cast<const InputForm *>(form),
               {.x = row_of(x, x->ne[1] == 1 ? 0 : pair % n_used, pair / n_used),
                .n_in = x->ne[0],
                .panel = static_cast<uint8_t *>(dst->data) + first * dst->ne[0],
                .n_tokens = std::min(k_product_panel, order.starts[expert + 1] - first),
                .i_token = i - first});
  }
}

void multiply_packed_experts(ggml_tensor *dst, int /*i_thread*/, int n_threads, void *product) {
  auto &[parts, tiles] = *static_cast<PackedProduct *>(product);
  const PackedWeight &weight = *parts.front().weight;
  const ggml_tensor *panels = dst->src[0];
  const int64_t n_tiles = weight.n_tiles();
  const ExpertOrder order(dst->src[1], panels->ne[1]);
  tiles.work(n_threads, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t expert = first / n_tiles;
      const int64_t begin = first % n_tiles;
      const int64_t end = std::min(last - expert * n_tiles, n_tiles);
      const int64_t first_row = begin * k_product_tile;
      const int64_t n_tokens = order.starts[expert + 1] - order.starts[expert];
      run_product(best_isa(), {.format = weight.format,
                               .tiles = weight.tile(expert, begin),
                               .n_in = weight.n_in,
                               .n_out = std::min(end * k_product_tile, weight.n_out) - first_row,
                               .panels = static_cast<const uint8_t *>(panels->data) +
                                         order.starts[expert] * panels->ne[0],
                               .n_tokens = n_tokens,
                               .y = static_cast<float *>(dst->data) + first_row,
                               .y_stride = dst->ne[0],
                               .rows = order.pairs + order.starts[expert]});
      first = expert * n_tiles + end;
    }
  });
}

}  // namespace patchbay
