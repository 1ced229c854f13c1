#include "lora/peft_joins.h"

#include <algorithm>
#include <span>
#include <utility>

#include "lora/combined_pair.h"
#include "lora/factor_ops.h"
#include "lora/peft_factors.h"

namespace patchbay {
namespace {

using File = std::shared_ptr<const SafetensorsFile>;

Factor rows_of(const Factor &b, int64_t i_row, int64_t n_rows) {
  const int64_t n_rank = b.ne[0];
  return gather(b, {n_rank, n_rows, 1}, {1, n_rank, 0}, i_row * n_rank);
}

Factor part_of(const Factor &vector, int64_t i_row, int64_t n_rows) {
  return gather(vector, {n_rows, 1, 1}, {1, 0, 0}, i_row);
}

std::optional<Factor> read_vector(const File &file, const SafeTensor *vector) {
  if (vector == nullptr) return std::nullopt;
  return scaled_f32(read_factor(file, *vector), 1);
}

/// The module's pair as if it were a weight of the base.
FactorPair read_pair(const PeftConfig &config, const File &file, const PeftModule &module,
                     const BaseInfo &base, RowPlan plan) {
  const int64_t n_rank = module.a->shape[0];
  FactorPair pair{.target = module.path,
                  .n_rank = n_rank,
                  .scale = config.f32_scale_of(config.pattern_name(module.path), n_rank),
                  .a = read_factor(file, *module.a),
                  .b = planned_rows(read_factor(file, *module.b), base, plan)};
  if (auto lengths = read_vector(file, module.magnitude))
    pair.magnitude = planned_rows(*std::move(lengths), base, plan);
  if (auto bias = read_vector(file, module.bias))
    pair.bias = planned_rows(*std::move(bias), base, plan);
  return pair;
}

/// Vectors of the parts one after the other, each times its factor; zeros where a part has none.
Factor concatenated(std::span<const RowPart> parts, Factor FactorPair::*vector,
                    const std::vector<float> &factors) {
  std::vector<float> all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t begin = all.size();
    all.resize(begin + static_cast<size_t>(parts[i].n_rows));
    const auto *pair = parts[i].pair;
    if (pair == nullptr || (pair->*vector).n_elements() == 0) continue;
    const auto part = std::span(all).subspan(begin);
    to_f32(pair->*vector, 0, part);
    for (float &value : part) value *= factors[i];
  }
  const auto n = static_cast<int64_t>(all.size());
  return make_factor({n, 1, 1}, std::move(all));
}

bool any_has(std::span<const RowPart> parts, Factor FactorPair::*vector) {
  return std::ranges::any_of(parts, [&](const RowPart &part) {
    return part.pair != nullptr && (part.pair->*vector).n_elements() > 0;
  });
}

}  // namespace

void add_pairs(const PeftConfig &config, const File &file, const PlacedSlices &placed,
               const BaseInfo &base, std::vector<FactorPair> &pairs) {
  const FactorPair whole = read_pair(config, file, *placed.module, base, RowPlan::as_is);
  int64_t i_row = 0;
  for (const auto &[use, plan] : placed.slices) {
    const int64_t n_rows = use->ne[1];
    FactorPair pair = whole;
    pair.target = use->name;
    pair.b = planned_rows(rows_of(whole.b, i_row, n_rows), base, plan);
    for (Factor FactorPair::*vector : {&FactorPair::magnitude, &FactorPair::bias}) {
      if ((whole.*vector).n_elements() > 0)
        pair.*vector = planned_rows(part_of(whole.*vector, i_row, n_rows), base, plan);
    }
    pairs.push_back(std::move(pair));
    i_row += n_rows;
  }
}

FactorPair make_pair(const PeftConfig &config, const File &file, const PlacedJoin &placed,
                     const BaseInfo &base) {
  std::vector<FactorPair> read;
  read.reserve(placed.parts.size());  // the parts point into it
  std::vector<RowPart> parts;
  for (const auto &part : placed.parts) {
    parts.push_back({.n_rows = part.n_rows});
    if (part.module == nullptr) continue;
    read.push_back(read_pair(config, file, *part.module, base, part.plan));
    parts.back().pair = &read.back();
  }
  auto combined = combine_rows(file->path(), parts);
  FactorPair pair{.target = placed.use->name,
                  .n_rank = combined.n_rank,
                  .scale = combined.scale,
                  .a = std::move(combined.a),
                  .b = std::move(combined.b)};
  if (any_has(parts, &FactorPair::magnitude)) {
    pair.magnitude = concatenated(parts, &FactorPair::magnitude, std::vector(parts.size(), 1.0F));
  }
  if (any_has(parts, &FactorPair::bias)) {
    // A bias has its pair's scale, which may have gone into B.
    std::vector<float> folded;
    for (const auto &part : parts)
      folded.push_back(part.pair != nullptr && part.pair->scale != combined.scale ? part.pair->scale
                                                                                  : 1);
    pair.bias = concatenated(parts, &FactorPair::bias, folded);
  }
  return pair;
}

std::optional<HeadShape> head_shape(const AdaptableUse &keys, const AdaptableUse &values) {
  const bool fits = keys.kind == UseKind::experts && values.kind == UseKind::experts &&
                    keys.ne[1] == values.ne[0] && keys.ne[2] == values.ne[2];
  if (!fits) return std::nullopt;
  return HeadShape{values.ne[0], keys.ne[2] * (keys.ne[0] + values.ne[1])};
}

/// (B_h A)^T = A^T B_h^T: what was B becomes the A of the transposed weight.
void add_pairs(const PeftConfig &config, const File &file, const PlacedHeads &placed,
               std::vector<FactorPair> &pairs) {
  const auto &module = *placed.module;
  const Factor a = read_factor(file, *module.a);
  const Factor b = read_factor(file, *module.b);
  const int64_t r = b.ne[0];
  const int64_t n_in = a.ne[0];
  const int64_t n_keys = placed.keys->ne[0];
  const int64_t n_values = placed.values->ne[1];
  const int64_t n_head = placed.keys->ne[2];
  const int64_t head = (n_keys + n_values) * r;  // numbers of B that belong to one
  const auto add = [&](const AdaptableUse &use, Factor new_a, Factor new_b) {
    pairs.push_back({.target = use.name,
                     .kind = use.kind,
                     .n_rank = r,
                     .scale = config.f32_scale_of(config.pattern_name(module.path), r),
                     .a = std::move(new_a),
                     .b = std::move(new_b)});
  };
  add(*placed.keys, gather(b, {n_keys, r, n_head}, {r, 1, head}),
      gather(a, {r, n_in, n_head}, {n_in, 1, 0}));
  add(*placed.values, gather(a, {n_in, r, n_head}, {1, n_in, 0}),
      gather(b, {r, n_values, n_head}, {1, r, head}, n_keys * r));
}

}  // namespace patchbay
