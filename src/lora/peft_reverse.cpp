#include "lora/peft_reverse.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "lora/combined_pair.h"
#include "lora/factor_ops.h"
#include "lora/peft_names.h"
#include "lora/peft_shapes.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

[[noreturn]] void refuse(const Adapter &adapter, std::string item, std::string problem) {
  throw LoadError({.path = adapter.path, .item = std::move(item), .problem = std::move(problem)});
}

const HfNames &names_of(const Adapter &adapter, const BaseInfo &base) {
  if (base.hf_names != nullptr) return *base.hf_names;
  refuse(adapter, "", fmt::format("is for a {} base, which has no table of PEFT names", base.arch));
}

/// The path in a Hugging Face model of causal language: all but the head lies under `model`.
std::string full_path(std::string_view hf_path, int64_t i_layer) {
  const auto path = with_layer(hf_path, i_layer);
  return path.starts_with("lm_head") ? path : "model." + path;
}

/// A row of a table, and the layer it is about.
template <class Row>
struct Found {
  const Row *row = nullptr;
  int64_t i_layer = -1;
};

/// The module that is this weight and nothing else.
std::optional<Found<NameRow>> find_module(const HfNames &names, std::string_view target) {
  for (const auto &row : names.rows) {
    if (row.hf_path.find('@') != std::string_view::npos) continue;
    if (const auto numbers = match_name(row.target, target)) {
      return Found<NameRow>{&row, numbers->i_layer};
    }
  }
  return std::nullopt;
}

/// The row of which this is the first or second weight.
template <class Row>
std::optional<Found<Row>> find_part(std::span<const Row> rows, std::string_view target) {
  for (const auto &row : rows) {
    auto numbers = match_name(row.target, target);
    if (!numbers && !row.second_target.empty()) numbers = match_name(row.second_target, target);
    if (numbers) return Found<Row>{&row, numbers->i_layer};
  }
  return std::nullopt;
}

int64_t n_elements(const Factor &factor) { return factor.n_elements(); }

/// Rows of one number each.
Factor as_rows(const Factor &vector) {
  Factor rows = vector;
  rows.ne = {1, vector.n_elements(), 1};
  return rows;
}

Factor as_vector(Factor rows) {
  rows.ne = {rows.n_elements(), 1, 1};
  return rows;
}

/// Rows [n, n_out] as they are in Hugging Face's files.
Factor restored(const Adapter &adapter, const std::string &item, const Factor &rows, RowPlan plan,
                const BaseInfo &base) {
  if (plan == RowPlan::as_is) return rows;
  const int64_t n_head = n_heads(base, plan);
  if (n_head <= 0 || rows.ne[1] % (2 * n_head) != 0) {
    refuse(adapter, item, fmt::format("has {} rows, which are no {} heads", rows.ne[1], n_head));
  }
  return restore_rotary_rows(rows, n_head);
}

NamedPair name_module(const Adapter &adapter, const FactorPair &pair, const Found<NameRow> &found,
                      const BaseInfo &base) {
  const RowPlan plan = found.row->plan;
  NamedPair named{.module = full_path(found.row->hf_path, found.i_layer),
                  .is_embedding = pair.kind == UseKind::embed,
                  .n_rank = pair.n_rank,
                  .scale = pair.scale,
                  .a = pair.a,
                  .b = restored(adapter, pair.target, pair.b, plan, base),
                  .magnitude = pair.magnitude,
                  .bias = pair.bias};
  if (named.is_embedding) named.a = transposed(pair.a);
  for (Factor *vector : {&named.magnitude, &named.bias}) {
    if (n_elements(*vector) == 0) continue;
    *vector = as_vector(restored(adapter, pair.target, as_rows(*vector), plan, base));
  }
  // Routers are modules of their own kind, which PEFT adapts through their parameter.
  if (pair.target.ends_with("ffn_gate_inp.weight")) named.parameter = named.module + ".weight";
  return named;
}

/// Weights of one module by the row that names them, and their pairs.
template <class Row>
using Groups = std::map<std::pair<const Row *, int64_t>, std::array<const FactorPair *, 2>>;

template <class Row>
void put(Groups<Row> &groups, const Found<Row> &found, const FactorPair &pair) {
  const bool is_second = !match_name(found.row->target, pair.target).has_value();
  groups[{found.row, found.i_layer}][is_second ? 1 : 0] = &pair;
}

void check_plain(const Adapter &adapter, const std::array<const FactorPair *, 2> &pairs) {
  for (const auto *pair : pairs) {
    if (pair == nullptr) continue;
    if (n_elements(pair->magnitude) == 0 && n_elements(pair->bias) == 0) continue;
    refuse(adapter, pair->target,
           "has DoRA lengths or a bias of its own, which PEFT does not have where it keeps several "
           "weights in one");
  }
}

/// Height of a weight, whether or not a pair is on it.
int64_t rows_of(const Adapter &adapter, const BaseInfo &base, std::string_view target,
                int64_t i_layer) {
  const auto name = with_layer(target, i_layer);
  if (const auto *use = base.find_use(name)) return use->ne[1];
  refuse(adapter, name, "is not in the base");
}

/// PEFT's ParamWrapper: row `e n_rank + k` of A, column `k n_expert + e` of B.
void fuse_experts(CombinedPair &pair) {
  const auto [n_rank, n_rows, n_expert] = pair.b.ne;
  pair.a.ne = {pair.a.ne[0], n_rank * n_expert, 1};
  pair.b = gather(pair.b, {n_expert, n_rank, n_rows}, {n_rank * n_rows, 1, n_rank});
  pair.b.ne = {n_rank * n_expert, n_rows, 1};
}

NamedPair named_combination(std::string module, CombinedPair pair) {
  return {.module = std::move(module),
          .n_rank = pair.n_rank,
          .scale = pair.scale,
          .a = std::move(pair.a),
          .b = std::move(pair.b)};
}

void name_fused(const Adapter &adapter, const BaseInfo &base, const Groups<FusedRow> &groups,
                std::vector<NamedPair> &named) {
  std::map<std::string, std::vector<std::pair<const FusedRow *, NamedPair>>> by_module;
  for (const auto &[key, pairs] : groups) {
    const auto &[row, i_layer] = key;
    check_plain(adapter, pairs);
    std::vector<RowPart> parts{{pairs[0], rows_of(adapter, base, row->target, i_layer)}};
    if (!row->second_target.empty()) {
      parts.push_back({pairs[1], rows_of(adapter, base, row->second_target, i_layer)});
    }
    auto pair = combine_rows(adapter.path, parts);
    fuse_experts(pair);
    auto one = named_combination(full_path(row->hf_path, i_layer), std::move(pair));
    one.parameter = fmt::format("{}.{}", one.module, row->parameter);
    by_module[one.module].emplace_back(row, std::move(one));
  }
  for (auto &[module, found] : by_module) {
    // Rows of a table lie in the order in which a module registers its parameters.
    std::ranges::sort(found, {}, [](const auto &one) { return one.first; });
    for (size_t i = 0; i < found.size(); ++i) {
      found[i].second.n_wrappers = static_cast<int>(found.size() - 1 - i);
      named.push_back(std::move(found[i].second));
    }
  }
}

/// The matrix that all slices of `stack` are.
Factor only_slice(const Adapter &adapter, const std::string &target, const Factor &stack) {
  const size_t n_slice = stack.data.size() / static_cast<size_t>(stack.ne[2]);
  for (int64_t i = 1; i < stack.ne[2]; ++i) {
    const auto slice = stack.data.subspan(static_cast<size_t>(i) * n_slice, n_slice);
    if (std::ranges::equal(slice, stack.data.first(n_slice))) continue;
    refuse(adapter, target,
           "has other factors for each head, which one module of PEFT cannot have");
  }
  return {.type = stack.type,
          .ne = {stack.ne[0], stack.ne[1], 1},
          .data = stack.data.first(n_slice),
          .owner = stack.owner};
}

/// Heads one below the other, [n_rank, n_rows n_head].
Factor joined_rows(Factor b) {
  b.ne = {b.ne[0], b.ne[1] * b.ne[2], 1};
  return b;
}

/// The key part of DeepSeek's kv_b_proj: (B' A')^T with A' and B' as the transposed weight has
/// them.
FactorPair untransposed(const Adapter &adapter, const FactorPair &pair) {
  const auto shared = only_slice(adapter, pair.target, pair.b);  // [n_rank, n_in]
  const auto [n_first, n_rank, n_head] = pair.a.ne;
  return {
      .target = pair.target,
      .n_rank = pair.n_rank,
      .scale = pair.scale,
      .a = gather(shared, {shared.ne[1], n_rank, 1}, {n_rank, 1, 0}),
      .b = joined_rows(gather(pair.a, {n_rank, n_first, n_head}, {n_first, 1, n_first * n_rank}))};
}

FactorPair value_part(const Adapter &adapter, const FactorPair &pair) {
  return {.target = pair.target,
          .n_rank = pair.n_rank,
          .scale = pair.scale,
          .a = only_slice(adapter, pair.target, pair.a),
          .b = joined_rows(pair.b)};
}

/// Rows of all first parts, then all second ones, to rows head by head.
Factor interleaved_heads(const Factor &b, int64_t n_first, int64_t n_second, int64_t n_head) {
  const size_t n_row = static_cast<size_t>(b.ne[0]) * ggml_type_size(b.type);
  std::vector<std::byte> bytes;
  bytes.reserve(b.data.size());
  const auto append = [&](int64_t i_row, int64_t n_rows) {
    const auto rows =
        b.data.subspan(static_cast<size_t>(i_row) * n_row, static_cast<size_t>(n_rows) * n_row);
    bytes.insert(bytes.end(), rows.begin(), rows.end());
  };
  for (int64_t h = 0; h < n_head; ++h) {
    append(h * n_first, n_first);
    append(n_head * n_first + h * n_second, n_second);
  }
  return make_factor(b.type, b.ne, std::move(bytes));
}

CombinedPair combine_heads(const Adapter &adapter, const AdaptableUse &first,
                           const AdaptableUse &second,
                           const std::array<const FactorPair *, 2> &pairs) {
  const int64_t n_head = first.ne[2];
  std::optional<FactorPair> keys;
  std::optional<FactorPair> values;
  if (pairs[0] != nullptr) keys = untransposed(adapter, *pairs[0]);
  if (pairs[1] != nullptr) values = value_part(adapter, *pairs[1]);
  const std::array parts{RowPart{keys ? &*keys : nullptr, first.ne[0] * n_head},
                         RowPart{values ? &*values : nullptr, second.ne[1] * n_head}};
  auto pair = combine_rows(adapter.path, parts);
  pair.b = interleaved_heads(pair.b, first.ne[0], second.ne[1], n_head);
  return pair;
}

void name_splits(const Adapter &adapter, const BaseInfo &base, const Groups<SplitRow> &groups,
                 std::vector<NamedPair> &named) {
  for (const auto &[key, pairs] : groups) {
    const auto &[row, i_layer] = key;
    check_plain(adapter, pairs);
    const auto *first = base.find_use(with_layer(row->target, i_layer));
    const auto *second = base.find_use(with_layer(row->second_target, i_layer));
    if (first == nullptr || second == nullptr) {
      refuse(adapter, (pairs[0] != nullptr ? pairs[0] : pairs[1])->target,
             "has no other half in the base");
    }
    const std::array parts{RowPart{pairs[0], first->ne[1]}, RowPart{pairs[1], second->ne[1]}};
    auto pair = row->plan == SplitPlan::halves ? combine_rows(adapter.path, parts)
                                               : combine_heads(adapter, *first, *second, pairs);
    named.push_back(named_combination(full_path(row->hf_path, i_layer), std::move(pair)));
  }
}

NamedReplacement with_path(const std::string &parameter, Factor value) {
  const size_t dot = parameter.find_last_of('.');
  return {.module = parameter.substr(0, dot),
          .leaf = parameter.substr(dot + 1),
          .value = std::move(value)};
}

std::optional<NamedReplacement> name_vector(const HfNames &names, const Replacement &replaced) {
  for (const auto &row : names.vectors) {
    const auto numbers = match_name(row.target, replaced.tensor);
    if (!numbers) continue;
    Factor value = replaced.value;
    if (row.plus_one) {
      auto values = numbers_of(value);
      for (float &number : values) number -= 1;
      value = make_factor(value.ne, std::move(values));
    }
    return with_path(full_path(row.hf_path, numbers->i_layer), std::move(value));
  }
  return std::nullopt;
}

NamedReplacement name_replacement(const Adapter &adapter, const HfNames &names,
                                  const Replacement &replaced, const BaseInfo &base) {
  if (auto vector = name_vector(names, replaced)) return *std::move(vector);
  const auto weight = weight_of_bias(replaced.tensor);
  const auto found = find_module(names, weight.empty() ? replaced.tensor : weight);
  if (!found) refuse(adapter, replaced.tensor, "has no name in PEFT");
  const auto module = full_path(found->row->hf_path, found->i_layer);
  const RowPlan plan = found->row->plan;
  NamedReplacement named{.module = module,
                         .leaf = weight.empty() ? "weight" : "bias",
                         .value = replaced.value,
                         .rows = replaced.rows};
  if (plan == RowPlan::as_is) return named;
  named.value =
      weight.empty()
          ? restored(adapter, replaced.tensor, replaced.value, plan, base)
          : as_vector(restored(adapter, replaced.tensor, as_rows(replaced.value), plan, base));
  return named;
}

const Replacement *find_rows(const Adapter &adapter, std::string_view tensor) {
  const auto found = std::ranges::find_if(adapter.replacements, [&](const Replacement &one) {
    return one.tensor == tensor && !one.rows.empty();
  });
  return found == adapter.replacements.end() ? nullptr : &*found;
}

/// In PEFT new rows of a tied table are those of both its uses.
bool is_copy_of_tied_rows(const Adapter &adapter, const BaseInfo &base,
                          const Replacement &replaced) {
  if (!base.tied_head || replaced.rows.empty()) return false;
  const bool is_head = replaced.tensor == "output.weight";
  const auto *other = find_rows(adapter, is_head ? "token_embd.weight" : "output.weight");
  const bool same = other != nullptr && other->rows == replaced.rows &&
                    std::ranges::equal(other->value.data, replaced.value.data);
  if (same) return is_head;
  refuse(adapter, replaced.tensor,
         "has new rows in one use of a tied table only, which PEFT cannot say");
}

}  // namespace

std::vector<NamedPair> name_pairs(const Adapter &adapter, const BaseInfo &base) {
  const HfNames &names = names_of(adapter, base);
  std::vector<NamedPair> named;
  Groups<FusedRow> fused;
  Groups<SplitRow> splits;
  for (const auto &pair : adapter.pairs) {
    if (const auto module = find_module(names, pair.target)) {
      named.push_back(name_module(adapter, pair, *module, base));
    } else if (const auto row = find_part(names.fused, pair.target)) {
      put(fused, *row, pair);
    } else if (const auto split = find_part(names.splits, pair.target)) {
      put(splits, *split, pair);
    } else {
      refuse(adapter, pair.target, "has no name in PEFT");
    }
  }
  name_fused(adapter, base, fused, named);
  name_splits(adapter, base, splits, named);
  return named;
}

std::vector<NamedReplacement> name_replacements(const Adapter &adapter, const BaseInfo &base) {
  const HfNames &names = names_of(adapter, base);
  std::vector<NamedReplacement> named;
  for (const auto &replaced : adapter.replacements) {
    if (is_copy_of_tied_rows(adapter, base, replaced)) continue;
    named.push_back(name_replacement(adapter, names, replaced, base));
  }
  return named;
}

}  // namespace patchbay
