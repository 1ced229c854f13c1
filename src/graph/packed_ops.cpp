#include "graph/packed_ops.h"

#include <algorithm>
#include <array>

#include "kernels/product.h"
#include "kernels/product_panels.h"

namespace patchbay {
namespace {

const float *row_of(const ggml_tensor *x, int64_t i1, int64_t i2 = 0) {
  return reinterpret_cast<const float *>(static_cast<const char *>(x->data) +
                                         static_cast<size_t>(i1) * x->nb[1] +
                                         static_cast<size_t>(i2) * x->nb[2]);
}

/// What sort_by_expert() leaves, see there.
template <class Int>
struct ExpertOrder {
  Int *n_groups;
  Int *experts;  // [n_groups]
  Int *starts;   // [n_groups + 1]
  Int *pairs;    // [n_pairs]

  ExpertOrder(const ggml_tensor *order, int64_t n_pairs) {
    const int64_t n_expert = (order->ne[0] - n_pairs) / 2 - 1;
    n_groups = static_cast<Int *>(order->data);
    experts = n_groups + 1;
    starts = experts + n_expert;
    pairs = starts + n_expert + 1;
  }
};

/// Rows [first, last) of a weight, and what comes after them.
void multiply_rows(ggml_tensor *dst, const uint8_t *panels, const PackedProduct &product,
                   const PackedProduct::Part &part, int64_t first, int64_t last) {
  const PackedWeight &weight = *part.weight;
  run_product(best_isa(), {.format = weight.format,
                           .tiles = weight.tile(0, first / k_product_tile),
                           .n_in = weight.n_in,
                           .n_out = last - first,
                           .panels = panels,
                           .n_tokens = dst->ne[1],
                           .y = static_cast<float *>(dst->data) + part.first_out + first,
                           .y_stride = dst->ne[0]});
  const auto &[op, data] = product.finish;
  if (op != nullptr) op(dst, part.first_out + first, part.first_out + last, data);
}

void multiply_strips(ggml_tensor *dst, const uint8_t *panels, int n_threads,
                     PackedProduct &product) {
  int64_t n_all = 0;
  for (const auto &part : product.parts) n_all += n_strips(*part.weight);
  product.strips.work(n_all, n_threads, [&](int64_t first, int64_t last) {
    for (const auto &part : product.parts) {
      const int64_t n = n_strips(*part.weight);
      const int64_t begin = std::max<int64_t>(first, 0);
      const int64_t end = std::min(last, n);
      if (begin < end) {
        multiply_rows(dst, panels, product, part, begin * k_strip_rows,
                      std::min(end * k_strip_rows, part.weight->n_out));
      }
      first -= n;
      last -= n;
    }
  });
}

}  // namespace

void quantise_input(ggml_tensor *dst, int i_thread, int n_threads, void *form) {
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
  multiply_strips(dst, static_cast<const uint8_t *>(dst->src[0]->data), n_threads,
                  *static_cast<PackedProduct *>(product));
}

void multiply_packed_row(ggml_tensor *dst, int /*i_thread*/, int n_threads, void *product) {
  auto &packed = *static_cast<PackedProduct *>(product);
  const ggml_tensor *x = dst->src[0];
  alignas(64) std::array<uint8_t, k_lone_row_bytes> panel;
  fill_panel(
      layout_of(packed.parts.front().weight->format).input,
      {.x = row_of(x, 0), .n_in = x->ne[0], .panel = panel.data(), .n_tokens = 1, .i_token = 0});
  multiply_strips(dst, panel.data(), n_threads, packed);
}

int64_t expert_order_size(int64_t n_expert, int64_t n_pairs) {
  return 2 * (n_expert + 1) + n_pairs;
}

void sort_by_expert(ggml_tensor *dst, int i_thread, int /*n_threads*/, void * /*data*/) {
  if (i_thread > 0) return;
  const ggml_tensor *experts = dst->src[0];
  const int64_t n_used = experts->ne[0];
  const int64_t n_pairs = n_used * experts->ne[1];
  const ExpertOrder<int32_t> order(dst, n_pairs);
  const int64_t n_expert = order.starts - order.experts;
  const auto expert_of = [&](int64_t pair) {
    return *reinterpret_cast<const int32_t *>(static_cast<const char *>(experts->data) +
                                              static_cast<size_t>(pair % n_used) * experts->nb[0] +
                                              static_cast<size_t>(pair / n_used) * experts->nb[1]);
  };
  // Counting sort: counts, then where each expert ends, then down to where it begins.
  int32_t *starts = order.starts;
  std::fill_n(starts, n_expert + 1, 0);
  for (int64_t pair = 0; pair < n_pairs; ++pair) ++starts[expert_of(pair)];
  for (int64_t expert = 1; expert <= n_expert; ++expert) starts[expert] += starts[expert - 1];
  for (int64_t pair = n_pairs - 1; pair >= 0; --pair)
    order.pairs[--starts[expert_of(pair)]] = static_cast<int32_t>(pair);
  int32_t n_groups = 0;
  for (int32_t expert = 0; expert < n_expert; ++expert) {
    if (starts[expert] == starts[expert + 1]) continue;
    order.experts[n_groups] = expert;
    starts[n_groups++] = starts[expert];
  }
  starts[n_groups] = static_cast<int32_t>(n_pairs);
  *order.n_groups = n_groups;
}

void quantise_experts_input(ggml_tensor *dst, int i_thread, int n_threads, void *form) {
  const ggml_tensor *x = dst->src[0];
  const int64_t n_pairs = dst->ne[1];
  const int64_t n_used = n_pairs / x->ne[2];
  const ExpertOrder<const int32_t> order(dst->src[1], n_pairs);
  int64_t group = 0;
  const int64_t end = n_pairs * (i_thread + 1) / n_threads;
  for (int64_t i = n_pairs * i_thread / n_threads; i < end; ++i) {
    while (i >= order.starts[group + 1]) ++group;
    const int64_t first = i - (i - order.starts[group]) % k_product_panel;
    const int64_t pair = order.pairs[i];
    fill_panel(*static_cast<const InputForm *>(form),
               {.x = row_of(x, x->ne[1] == 1 ? 0 : pair % n_used, pair / n_used),
                .n_in = x->ne[0],
                .panel = static_cast<uint8_t *>(dst->data) + first * dst->ne[0],
                .n_tokens = std::min(k_product_panel, order.starts[group + 1] - first),
                .i_token = i - first});
  }
}

void multiply_packed_experts(ggml_tensor *dst, int /*i_thread*/, int n_threads, void *product) {
  auto &packed = *static_cast<PackedProduct *>(product);
  const PackedWeight &weight = *packed.parts.front().weight;
  const ggml_tensor *panels = dst->src[0];
  const ExpertOrder<const int32_t> order(dst->src[1], panels->ne[1]);
  const int64_t n = n_strips(weight);
  packed.strips.work(*order.n_groups * n, n_threads, [&](int64_t first, int64_t last) {
    while (first < last) {
      const int64_t group = first / n;
      const int64_t end = std::min(last, (group + 1) * n);
      const int64_t first_row = (first - group * n) * k_strip_rows;
      const int64_t end_row = std::min((end - group * n) * k_strip_rows, weight.n_out);
      const int32_t start = order.starts[group];
      run_product(best_isa(),
                  {.format = weight.format,
                   .tiles = weight.tile(order.experts[group], first_row / k_product_tile),
                   .n_in = weight.n_in,
                   .n_out = end_row - first_row,
                   .panels = static_cast<const uint8_t *>(panels->data) + start * panels->ne[0],
                   .n_tokens = order.starts[group + 1] - start,
                   .y = static_cast<float *>(dst->data) + first_row,
                   .y_stride = dst->ne[0],
                   .rows = order.pairs + start});
      first = end;
    }
  });
}

}  // namespace patchbay
