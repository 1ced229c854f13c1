#include "lora/peft_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "lora/factor_ops.h"
#include "lora/peft_joins.h"

namespace patchbay {
namespace {

constexpr const char *k_another_base = "another base model?";

struct Mismatch {
  std::string item;
  std::string problem = "has incorrect shape";
  std::string wanted = {};
  std::string found = {};
  std::string hint = {};
};

[[noreturn]] void refuse(const std::string &path, Mismatch mismatch) {
  throw LoadError({.path = path,
                   .item = std::move(mismatch.item),
                   .problem = std::move(mismatch.problem),
                   .wanted = std::move(mismatch.wanted),
                   .found = std::move(mismatch.found),
                   .hint = std::move(mismatch.hint)});
}

/// Tables differ in height when tokens were added before the training.
std::string hint_for_rows(const AdaptableUse &use, int64_t n_rows) {
  if (use.kind != UseKind::embed && use.name != "output.weight") return k_another_base;
  return fmt::format("vocabulary resized: {} against {}", n_rows, use.ne[1]);
}

void check_kind(const std::string &path, const PlacedModule &placed) {
  const auto &module = *placed.module;
  if ((placed.use->kind == UseKind::embed) != module.is_embedding) {
    refuse(path, {.item = module.a->name,
                  .problem = module.is_embedding
                                 ? "is half of an embedding pair, but the module is no look-up"
                                 : "is half of a linear pair, but the module is a look-up"});
  }
  if (placed.use->kind == UseKind::experts && placed.i_expert < 0) {
    refuse(path, {.item = module.path,
                  .problem = "is one pair for all experts, which is not understood"});
  }
}

/// BD-LoRA looks for its patterns anywhere in a module's own name.
bool names_one(const std::vector<std::string> &patterns, const std::string &module) {
  const auto name = std::string_view(module).substr(module.find_last_of('.') + 1);
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string &pattern) {
    return name.find(pattern) != std::string_view::npos;
  });
}

void check_vector(const std::string &path, const SafeTensor *vector, int64_t n) {
  if (vector == nullptr || (vector->shape.size() == 1 && vector->shape[0] == n)) return;
  refuse(path, {.item = vector->name,
                .wanted = fmt::format("[{}]", n),
                .found = format_shape(*vector),
                .hint = k_another_base});
}

void check_halves(const PeftConfig &config, const std::string &path, const PlacedModule &placed) {
  const auto &use = *placed.use;
  const auto &a = *placed.module->a;
  const auto &b = *placed.module->b;
  const bool is_embed = use.kind == UseKind::embed;
  const int64_t n_a = is_embed ? use.ne[1] : use.ne[0];
  const int64_t n_b = is_embed ? use.ne[0] : use.ne[1];
  const int64_t a_factor = input_factor(config, placed);
  if (a.shape[1] * a_factor != n_a) {
    refuse(path, {.item = a.name,
                  .wanted = fmt::format("[r, {}] in torch order", n_a / a_factor),
                  .found = format_shape(a),
                  .hint = is_embed ? hint_for_rows(use, a.shape[1]) : k_another_base});
  }
  if (b.shape[0] != n_b) {
    refuse(path, {.item = b.name,
                  .wanted = fmt::format("[{}, r] in torch order", n_b),
                  .found = format_shape(b),
                  .hint = is_embed ? k_another_base : hint_for_rows(use, b.shape[0])});
  }
  const int64_t b_factor = rank_factor(config, placed);
  const bool cut_evenly =
      !config.block_diagonal || (a.shape[0] % a_factor == 0 && n_b % b_factor == 0);
  if (a.shape[0] != b.shape[1] * b_factor || !cut_evenly) {
    refuse(path, {.item = b.name,
                  .problem = "has incorrect shape: another rank than its lora_A",
                  .wanted = std::to_string(a.shape[0] / b_factor),
                  .found = std::to_string(b.shape[1])});
  }
  check_vector(path, placed.module->magnitude, n_b);
  check_vector(path, placed.module->bias, n_b);
}

void check_rank(const PeftConfig &config, const std::string &path, const SafeTensor &a,
                const std::string &module, int64_t n_rank) {
  const int64_t wanted = config.rank_of(module);
  if (n_rank == wanted) return;
  refuse(path, {.item = a.name,
                .problem = "has another rank than adapter_config.json states",
                .wanted = std::to_string(wanted),
                .found = std::to_string(n_rank)});
}

/// Quantised copies are packed, so their shapes say nothing.
void check_base_copy(const std::string &path, const PlacedModule &placed) {
  const auto *copy = placed.module->base_weight;
  if (copy == nullptr || copy->shape.size() != 2) return;
  if (!factor_type(copy->dtype)) return;
  if (copy->shape[0] == placed.use->ne[1]) return;
  refuse(path, {.item = copy->name,
                .problem = "is no copy of the base's weight",
                .wanted = fmt::format("{} rows", placed.use->ne[1]),
                .found = std::to_string(copy->shape[0]),
                .hint = hint_for_rows(*placed.use, copy->shape[0])});
}

void check_heads(const std::string &path, const std::string &module, RowPlan plan, int64_t n_rows,
                 const BaseInfo &base) {
  if (plan == RowPlan::as_is) return;
  const int64_t n_head = n_heads(base, plan);
  if (n_head > 0 && n_rows % (2 * n_head) == 0) return;
  refuse(path, {.item = module,
                .problem = fmt::format("has {} rows, which are no {} heads of even size", n_rows,
                                       n_head)});
}

/// The pair of a linear module by itself, whatever it is in the base.
void check_linear(const PeftConfig &config, const std::string &path, const PeftModule &module,
                  int64_t n_in, int64_t n_out) {
  const auto &a = *module.a;
  const auto &b = *module.b;
  if (module.is_embedding) {
    refuse(path, {.item = a.name,
                  .problem = "is half of an embedding pair, but the module is no look-up"});
  }
  if (a.shape[1] != n_in || b.shape[0] != n_out) {
    refuse(path,
           {.item = module.path,
            .problem = "has factors of incorrect shape",
            .wanted = fmt::format("lora_A [r, {}] and lora_B [{}, r] in torch order", n_in, n_out),
            .found = fmt::format("{} and {}", format_shape(a), format_shape(b)),
            .hint = k_another_base});
  }
  if (a.shape[0] != b.shape[1]) {
    refuse(path, {.item = b.name,
                  .problem = "has incorrect shape: another rank than its lora_A",
                  .wanted = std::to_string(a.shape[0]),
                  .found = std::to_string(b.shape[1])});
  }
  check_vector(path, module.magnitude, n_out);
  check_vector(path, module.bias, n_out);
  check_rank(config, path, a, config.pattern_name(module.path), a.shape[0]);
}

[[noreturn]] void refuse_parts(const std::string &path, const PeftModule &module,
                               const AdaptableUse &one, const AdaptableUse &other) {
  refuse(path,
         {.item = module.path,
          .problem = fmt::format("is {} and {} in this base, whose shapes do not belong together",
                                 one.name, other.name)});
}

bool is_swapped_version(const PeftConfig &config, const std::string &path,
                        const PlacedFused &placed) {
  constexpr std::array<int64_t, 3> k_first_natural{0, 19, 1};
  if (config.peft_version) return *config.peft_version < k_first_natural;
  refuse(path, {.item = placed.parameter,
                .problem = "is square: only peft_version in adapter_config.json can tell its "
                           "layout, and it is missing",
                .hint = "add the version of PEFT that wrote the adapter"});
}

}  // namespace

int64_t n_heads(const BaseInfo &base, RowPlan plan) {
  return plan == RowPlan::rotary_q ? base.hparams.n_head : base.hparams.n_head_kv;
}

int64_t input_factor(const PeftConfig &config, const PlacedModule &placed) {
  const auto &module = *placed.module;
  if (placed.use->kind != UseKind::linear) return 1;
  if (config.block_diagonal && names_one(config.block_diagonal->a, module.path))
    return config.block_diagonal->n_blocks;
  // Off quantised bases PEFT ignores the option.
  const int64_t group = config.qalora_group.value_or(1);
  return module.a->shape[1] * group == placed.use->ne[0] ? group : 1;
}

int64_t rank_factor(const PeftConfig &config, const PlacedModule &placed) {
  if (placed.use->kind != UseKind::linear || !config.block_diagonal) return 1;
  const bool is_b = names_one(config.block_diagonal->b, placed.module->path);
  return is_b ? config.block_diagonal->n_blocks : 1;
}

void check_shapes(const PeftConfig &config, const std::string &path, const PlacedModule &placed,
                  const BaseInfo &base) {
  const auto &module = *placed.module;
  check_kind(path, placed);
  check_halves(config, path, placed);
  check_rank(config, path, *module.a, config.pattern_name(module.path), module.a->shape[0]);
  check_base_copy(path, placed);
  check_heads(path, module.path, placed.plan, placed.use->ne[1], base);
}

void check_shapes(const PeftConfig &config, const std::string &path, const PlacedSlices &placed,
                  const BaseInfo &base) {
  const auto &module = *placed.module;
  const AdaptableUse &first = *placed.slices.front().use;
  int64_t n_out = 0;
  for (const auto &[use, plan] : placed.slices) {
    if (use->kind != UseKind::linear || use->ne[0] != first.ne[0])
      refuse_parts(path, module, first, *use);
    check_heads(path, module.path, plan, use->ne[1], base);
    n_out += use->ne[1];
  }
  check_linear(config, path, module, first.ne[0], n_out);
}

void check_shapes(const PeftConfig &config, const std::string &path, const PlacedJoin &placed,
                  const BaseInfo &base) {
  const PeftModule *with_lengths = nullptr;
  const PlacedJoin::Part *without = nullptr;
  for (const auto &part : placed.parts) {
    const auto *module = part.module;
    if (module == nullptr || module->magnitude == nullptr) without = &part;
    if (module == nullptr) continue;
    if (module->magnitude != nullptr) with_lengths = module;
    check_linear(config, path, *module, placed.use->ne[0], part.n_rows);
    check_heads(path, module->path, part.plan, part.n_rows, base);
  }
  if (with_lengths == nullptr || without == nullptr) return;
  refuse(path, {.item = with_lengths->path,
                .problem = fmt::format("has DoRA lengths for some rows of {} only, which is one "
                                       "weight in this base",
                                       placed.use->name),
                .hint = "a base in which it is several takes the adapter"});
}

void check_shapes(const PeftConfig &config, const std::string &path, const PlacedHeads &placed) {
  const auto &module = *placed.module;
  const auto shape = head_shape(*placed.keys, *placed.values);
  if (!shape) refuse_parts(path, module, *placed.keys, *placed.values);
  check_linear(config, path, module, shape->n_in, shape->n_out);
  if (module.magnitude == nullptr && module.bias == nullptr) return;
  refuse(path, {.item = module.path,
                .problem = fmt::format("has DoRA lengths or a bias, which {}, transposed in this "
                                       "base, cannot have",
                                       placed.keys->name)});
}

FusedShape check_fused_shapes(const PeftConfig &config, const std::string &path,
                              const PlacedFused &placed) {
  const auto &a = *placed.module->a;
  const auto &b = *placed.module->b;
  const auto &use = *placed.use;
  if (use.kind != UseKind::experts || placed.module->is_embedding) {
    refuse(path, {.item = placed.module->path, .problem = "is no weight of experts in this base"});
  }
  const int64_t n_expert = use.ne[2];
  FusedShape shape{
      .n_rank = a.shape[0] / n_expert,
      .n_in = use.ne[0],
      .n_out = use.ne[1] + (placed.second_use != nullptr ? placed.second_use->ne[1] : 0)};
  const bool natural = a.shape[1] == shape.n_in && b.shape[0] == shape.n_out;
  const bool swapped = a.shape[1] == shape.n_out && b.shape[0] == shape.n_in;
  if (!natural && !swapped) {
    refuse(path, {.item = placed.parameter,
                  .wanted = fmt::format("lora_A [r, {}] and lora_B [{}, r] in torch order",
                                        shape.n_in, shape.n_out),
                  .found = fmt::format("{} and {}", format_shape(a), format_shape(b)),
                  .hint = k_another_base});
  }
  if (a.shape[0] != b.shape[1] || shape.n_rank * n_expert != a.shape[0]) {
    refuse(path, {.item = placed.parameter,
                  .wanted = fmt::format("equal ranks, a multiple of {} experts", n_expert),
                  .found = fmt::format("{} and {}", a.shape[0], b.shape[1])});
  }
  shape.swapped = natural && swapped ? is_swapped_version(config, path, placed) : swapped;
  check_rank(config, path, a, placed.parameter, shape.n_rank);
  return shape;
}

}  // namespace patchbay
