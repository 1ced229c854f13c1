#include "graph/lora_fused.h"

#include <algorithm>
#include <bit>

#include "graph/graph.h"
#include "graph/packed_products.h"

namespace patchbay {
namespace {

/// Widths are powers of two from here on, so that few of them, and few graphs, occur.
constexpr size_t k_min_width = 16;

/// The numbers that the adapters of `set` put into a row's vector for one input.
size_t width_of(const LoraPool &pool, const AdapterSet &set, const std::vector<size_t> &uses) {
  int64_t width = 0;
  for (const auto &worn : set) {
    for (const size_t i_use : uses) {
      for (const auto &change : pool.changes(worn.i_adapter, i_use)) width += change.n_rank();
    }
  }
  return static_cast<size_t>(width);
}

bool changes_norm(const LoraPool &pool, const AdapterSet &set, size_t i_norm) {
  return std::ranges::any_of(
      set, [&](const Worn &worn) { return pool.norm_change(worn.i_adapter, i_norm) != nullptr; });
}

/// Adds nodes that write into `y`; the result is a view of it.
ggml_tensor *add_in_place(ggml_context *c, ggml_tensor *y, std::span<ggml_tensor *const> sources,
                          ggml_custom_op_t op, void *data) {
  std::vector<ggml_tensor *> args(sources.begin(), sources.end());
  return ggml_custom_inplace(c, y, args.data(), static_cast<int>(args.size()), op, GGML_N_TASKS_MAX,
                             data);
}

}  // namespace

LoraShape FusedLora::shape_of(const LoraPool &pool, const Routing &routing) {
  const size_t n_inputs = pool.inputs().size();
  LoraShape shape{.worn = std::vector<bool>(n_inputs + pool.n_norms(), false)};
  size_t widest = 0;
  for (const auto &segment : routing.segments()) {
    for (size_t i = 0; i < pool.n_norms(); ++i) {
      if (changes_norm(pool, segment.set, i)) shape.worn[n_inputs + i] = true;
    }
    for (size_t i = 0; i < n_inputs; ++i) {
      const size_t width = width_of(pool, segment.set, pool.inputs()[i]);
      if (width > 0) shape.worn[i] = true;
      widest = std::max(widest, width);
    }
  }
  if (widest > 0) shape.n_width = std::bit_ceil(std::max(widest, k_min_width));
  return shape;
}

FusedLora::FusedLora(LoraPool &pool, LoraShape shape) : pool_(pool), shape_(std::move(shape)) {
  for (auto &mix : mixes_) mix.pool = &pool;
}

bool FusedLora::is_worn(const Weight &weight) const {
  const LoraPool &pool = *mixes_[0].pool;
  const size_t i_use = pool.find_use(weight.name);
  return i_use != LoraPool::k_nowhere && shape_.worn[pool.input_of(i_use)];
}

const LoraInput &FusedLora::new_input(RowSet rows, std::vector<size_t> uses) {
  return inputs_.emplace_back(
      LoraInput{.mix = &mixes_[static_cast<size_t>(rows)], .uses = std::move(uses)});
}

LoraOutput &FusedLora::new_output(const LoraInput &input) {
  return outputs_.emplace_back(LoraOutput{.input = &input});
}

ggml_tensor *FusedLora::new_low(Graph &g, std::span<ggml_tensor *const> sources, int64_t n_used,
                                int64_t n_rows, ggml_custom_op_t op, const LoraInput &input) const {
  std::vector<ggml_tensor *> args(sources.begin(), sources.end());
  // ggml hands the data back as it got it; the operations only read it.
  return ggml_custom_4d(g.context(), GGML_TYPE_F32, static_cast<int64_t>(shape_.n_width), n_used,
                        n_rows, 1, args.data(), static_cast<int>(args.size()), op, GGML_N_TASKS_MAX,
                        const_cast<LoraInput *>(&input));
}

/// The expansion of a lone row is added by the product itself, where that is ours: its step is so
/// short that one node less counts. The factors of many rows' adapters are read in longer runs, and
/// sooner, by a node of their own (docs/decisions/0005-fused-low-rank-step.md).
std::vector<ggml_tensor *> FusedLora::add_linear(Graph &g, ggml_tensor *x,
                                                 std::span<const BaseProduct> products) {
  std::vector<size_t> uses;
  bool worn = false;
  for (const auto &product : products) {
    for (const Weight *weight : product.weights) {
      uses.push_back(mixes_[0].pool->find_use(weight->name));
      worn = worn || is_worn(*weight);
    }
  }
  if (!worn) return split_products(g.context(), products);
  const LoraInput &input = new_input(g.rows(), std::move(uses));
  ggml_tensor *low = new_low(g, std::array{x}, 1, x->ne[1], shrink_linear, input);
  std::vector<BaseProduct> sums;
  size_t i_member = 0;
  for (const auto &[weights, y, packed] : products) {
    LoraOutput &output = new_output(input);
    int64_t first_out = 0;
    for (const Weight *weight : weights) {
      output.parts.push_back({.i_member = i_member++, .first_out = first_out});
      first_out += weight->tensor->ne[1];
    }
    if (packed != nullptr && x->ne[1] == 1) {
      PackedProducts::finish_with({y, packed}, low, {.op = expand_columns, .data = &output});
      sums.push_back({weights, y});
    } else {
      sums.push_back(
          {weights, add_in_place(g.context(), y, std::array{low}, expand_linear, &output)});
    }
  }
  return split_products(g.context(), sums);
}

ggml_tensor *FusedLora::add_embed(Graph &g, const Weight &table, ggml_tensor *y) {
  if (!is_worn(table)) return y;
  const LoraInput &input = new_input(RowSet::all, {mixes_[0].pool->find_use(table.name)});
  LoraOutput &output = new_output(input);
  output.parts = {{}};
  ggml_tensor *low = new_low(g, std::array{g.inputs().tokens}, 1, y->ne[1], look_up_low, input);
  return add_in_place(g.context(), y, std::array{low}, expand_linear, &output);
}

ggml_tensor *FusedLora::add_experts(Graph &g, const Weight &weight, ggml_tensor *x,
                                    ggml_tensor *experts, ggml_tensor *y) {
  if (!is_worn(weight)) return y;
  const LoraInput &input = new_input(g.rows(), {mixes_[0].pool->find_use(weight.name)});
  LoraOutput &output = new_output(input);
  output.parts = {{}};
  ggml_tensor *low =
      new_low(g, std::array{x, experts}, experts->ne[0], experts->ne[1], shrink_experts, input);
  return add_in_place(g.context(), y, std::array{low, experts}, expand_experts, &output);
}

ggml_tensor *FusedLora::add_norm(Graph &g, const Weight &weight, ggml_tensor *unit,
                                 ggml_tensor *y) {
  const LoraPool &pool = *mixes_[0].pool;
  const size_t i_norm = pool.find_norm(weight.name);
  if (i_norm == LoraPool::k_nowhere || !shape_.worn[pool.inputs().size() + i_norm]) return y;
  LoraNorm &norm = norms_.emplace_back(LoraNorm{.mix = &mixes_[static_cast<size_t>(g.rows())],
                                                .i_norm = i_norm,
                                                .row_size = ggml_nelements(y) / g.n_rows()});
  return add_in_place(g.context(), y, std::array{unit}, change_norm, &norm);
}

void FusedLora::upload(const Routing &routing, const OutputRows &rows,
                       std::span<const int32_t> /*tokens*/) {
  const auto fill = [&](RowSet set, const Routing &of_set) {
    LoraMix &mix = mixes_[static_cast<size_t>(set)];
    mix.segments = of_set.segments();
    mix.has_dora = std::ranges::any_of(mix.segments, [&](const Segment &segment) {
      return std::ranges::any_of(
          segment.set, [&](const Worn &worn) { return mix.pool->has_dora(worn.i_adapter); });
    });
  };
  fill(RowSet::all, routing);
  const LoraMix &all = mixes_[static_cast<size_t>(RowSet::all)];
  if (all.has_dora) pool_.hold_gains(all.segments);
  fill(RowSet::outputs, routing.select(rows.outputs));
  fill(RowSet::logits, routing.select(rows.logits));
}

}  // namespace patchbay
