#include "lora/peft_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "lora/factor_ops.h"
#include "lora/peft_experts.h"
#include "lora/peft_factors.h"
#include "lora/peft_joins.h"
#include "lora/peft_placement.h"
#include "lora/peft_shapes.h"

namespace patchbay {
namespace {

using File = std::shared_ptr<const SafetensorsFile>;

/// QALoRA feeds A the means of groups of inputs, times the number of groups.
Factor ungrouped(const Factor &a, int64_t group) {
  const int64_t n_in = a.ne[0] * group;
  std::vector<float> values;
  std::vector<float> row(static_cast<size_t>(a.ne[0]));
  const float scale = static_cast<float>(a.ne[0]) / static_cast<float>(group);
  for (int64_t rank = 0; rank < a.ne[1]; ++rank) {
    to_f32(a, rank * a.ne[0], row);
    for (const float value : row)
      values.insert(values.end(), static_cast<size_t>(group), value * scale);
  }
  return make_factor({n_in, a.ne[1], 1}, std::move(values));
}

/// BD-LoRA keeps a block-diagonal matrix without its zeros: [n_columns / n_blocks, n_rows].
Factor with_zeros(const Factor &packed, int64_t n_blocks) {
  const auto n = static_cast<size_t>(packed.ne[0]);
  std::vector<float> values(n * static_cast<size_t>(n_blocks * packed.ne[1]));
  for (int64_t row = 0; row < packed.ne[1]; ++row) {
    const int64_t block = row * n_blocks / packed.ne[1];
    to_f32(packed, row * packed.ne[0],
           std::span(values).subspan(n * static_cast<size_t>(row * n_blocks + block), n));
  }
  return make_factor({packed.ne[0] * n_blocks, packed.ne[1], 1}, std::move(values));
}

Factor read_a(const PeftConfig &config, const File &file, const PlacedModule &placed) {
  Factor a = read_factor(file, *placed.module->a);
  const int64_t n = input_factor(config, placed);
  // GGUF keeps a look-up's A by rows, one per token: [n_rank, n_rows] instead of [n_rows, n_rank].
  if (n == 1) return placed.module->is_embedding ? transposed(a) : a;
  return config.block_diagonal ? with_zeros(a, n) : ungrouped(a, n);
}

FactorPair read_whole(const PeftConfig &config, const File &file, const PlacedModule &placed,
                      const BaseInfo &base) {
  const auto &module = *placed.module;
  const int64_t n_rank = module.a->shape[0];
  const auto planned = [&](const Factor &factor) {
    return planned_rows(factor, base, placed.plan);
  };
  Factor b = read_factor(file, *module.b);
  if (const int64_t n = rank_factor(config, placed); n > 1) b = with_zeros(b, n);
  FactorPair pair{.target = placed.use->name,
                  .kind = placed.use->kind,
                  .n_rank = n_rank,
                  .scale = config.f32_scale_of(config.pattern_name(module.path), n_rank),
                  .a = read_a(config, file, placed),
                  .b = planned(b)};
  if (module.magnitude != nullptr)
    pair.magnitude = scaled_f32(planned(read_factor(file, *module.magnitude)), 1);
  if (module.bias != nullptr) pair.bias = scaled_f32(planned(read_factor(file, *module.bias)), 1);
  return pair;
}

ExpertPart read_expert(const PeftConfig &config, const File &file, const PlacedModule &placed) {
  const auto &module = *placed.module;
  const float scale = config.f32_scale_of(config.pattern_name(module.path), module.a->shape[0]);
  ExpertPart part{.i_expert = placed.i_expert,
                  .a = read_factor(file, *module.a),
                  .b = read_factor(file, *module.b),
                  .scale = scale};
  if (module.magnitude != nullptr)
    part.magnitude = scaled_f32(read_factor(file, *module.magnitude), 1);
  return part;
}

/// What the config says of every pair and what the file has must agree: PEFT makes up what is
/// missing, and leaves alone what it does not expect.
void check_extras(const PeftConfig &config, const std::string &path, const PeftModules &modules) {
  const auto check = [&](const PeftModule &module, bool wanted, const SafeTensor *found,
                         const char *option, const char *what) {
    if (wanted == (found != nullptr)) return;
    throw LoadError(
        {.path = path,
         .item = module.path,
         .problem = fmt::format("{} {}, and adapter_config.json says {} = {}",
                                found != nullptr ? "has" : "is missing", what, option, wanted)});
  };
  for (const auto &module : modules.pairs) {
    check(module, config.uses_dora, module.magnitude, "use_dora", "its lora_magnitude_vector");
    check(module, config.has_lora_bias, module.bias, "lora_bias", "a bias of lora_B");
  }
}

void add_single(const PeftConfig &config, const File &file, const Placement &placement,
                const BaseInfo &base, std::vector<FactorPair> &pairs) {
  std::map<const AdaptableUse *, std::vector<ExpertPart>> parts_by_use;
  for (const auto &placed : placement.single) {
    if (placed.i_expert >= 0) {
      parts_by_use[placed.use].push_back(read_expert(config, file, placed));
    } else {
      pairs.push_back(read_whole(config, file, placed, base));
    }
  }
  for (const auto &[use, parts] : parts_by_use) {
    pairs.push_back(stack_experts(use->name, use->ne[2], parts));
    if (all_finite(pairs.back().b)) continue;
    throw LoadError({.path = file->path(),
                     .item = use->name,
                     .problem = "overflows F32 when the scales of its experts are folded in"});
  }
}

void add_fused(const PeftConfig &config, const File &file, const PlacedFused &placed,
               const FusedShape &shape, std::vector<FactorPair> &pairs) {
  const FusedFactors factors{.a = read_factor(file, *placed.module->a),
                             .b = read_factor(file, *placed.module->b),
                             .n_rank = shape.n_rank,
                             .n_expert = placed.use->ne[2],
                             .n_in = shape.n_in,
                             .n_out = shape.n_out,
                             .swapped = shape.swapped};
  const float scale = config.f32_scale_of(placed.parameter, shape.n_rank);
  int64_t i_row = 0;
  for (const auto *use : {placed.use, placed.second_use}) {
    if (use == nullptr) continue;
    pairs.push_back(unfuse_experts(use->name, factors, i_row, use->ne[1]));
    pairs.back().scale = scale;
    i_row += use->ne[1];
  }
}

const FactorPair *find_pair(const std::vector<FactorPair> &pairs, std::string_view target) {
  const auto found = std::find_if(pairs.begin(), pairs.end(),
                                  [&](const FactorPair &pair) { return pair.target == target; });
  return found == pairs.end() ? nullptr : &*found;
}

bool equal_numbers(const Factor &one, const Factor &other) {
  return one.ne == other.ne &&
         std::ranges::equal(scaled_f32(one, 1).data, scaled_f32(other, 1).data);
}

/// With ensure_weight_tying both uses of a tied table share one pair, which PEFT saves twice, once
/// transposed.
void check_tied_pairs(const PeftConfig &config, const std::string &path, const BaseInfo &base,
                      const std::vector<FactorPair> &pairs) {
  if (!config.ties_weights || !base.tied_head) return;
  const auto *embed = find_pair(pairs, "token_embd.weight");
  const auto *head = find_pair(pairs, "output.weight");
  if (embed == nullptr && head == nullptr) return;
  const bool both = embed != nullptr && head != nullptr;
  if (both && equal_numbers(embed->a, head->b) && equal_numbers(transposed(embed->b), head->a)) {
    return;
  }
  throw LoadError({.path = path,
                   .item = "embed_tokens and lm_head",
                   .problem = "must hold the same pair, as ensure_weight_tying says",
                   .wanted = "equal numbers in both",
                   .found = both               ? "different ones"
                            : embed == nullptr ? "lm_head only"
                                               : "embed_tokens only"});
}

}  // namespace

std::vector<FactorPair> make_pairs(const PeftConfig &config, const File &file,
                                   const PeftModules &modules, const BaseInfo &base) {
  check_extras(config, file->path(), modules);
  const auto placement = place_modules(config, file->path(), modules, base);
  for (const auto &placed : placement.single) check_shapes(config, file->path(), placed, base);
  for (const auto &placed : placement.slices) check_shapes(config, file->path(), placed, base);
  for (const auto &placed : placement.joins) check_shapes(config, file->path(), placed, base);
  for (const auto &placed : placement.heads) check_shapes(config, file->path(), placed);
  std::vector<FusedShape> fused_shapes;
  for (const auto &placed : placement.fused) {
    fused_shapes.push_back(check_fused_shapes(config, file->path(), placed));
  }
  std::vector<FactorPair> pairs;
  add_single(config, file, placement, base, pairs);
  for (const auto &placed : placement.slices) add_pairs(config, file, placed, base, pairs);
  for (const auto &placed : placement.joins) pairs.push_back(make_pair(config, file, placed, base));
  for (const auto &placed : placement.heads) add_pairs(config, file, placed, pairs);
  for (size_t i = 0; i < placement.fused.size(); ++i) {
    add_fused(config, file, placement.fused[i], fused_shapes[i], pairs);
  }
  check_tied_pairs(config, file->path(), base, pairs);
  return pairs;
}

}  // namespace patchbay
