#include "lora/peft_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "lora/adaptable.h"
#include "lora/peft_names.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

/// What the steps of placing share.
struct Context {
  const PeftConfig &config;
  const std::string &path;
  const PeftModules &modules;
  const BaseInfo &base;
  const HfNames &names;
  Placement placement = {};
  std::vector<std::string> unread =
      {};  ///< modules with a name but without a use in the base's graph
};

[[noreturn]] void refuse(const Context &context, std::string item, std::string problem) {
  throw LoadError({.path = context.path, .item = std::move(item), .problem = std::move(problem)});
}

const HfNames &names_of(const std::string &path, const BaseInfo &base) {
  if (base.hf_names != nullptr) return *base.hf_names;
  throw LoadError(
      {.path = path,
       .problem = fmt::format("is a PEFT adapter, and architecture {} has no table of PEFT names",
                              base.arch),
       .hint = "convert it to a GGUF adapter"});
}

/// How far a kind of place got with a module.
enum class Placing {
  unknown,  ///< the table has no such name
  unread,   ///< it has, but the base's graph reads no such weight
  placed,
};

/// The use of that name in the layer; nullptr when the graph reads none.
const AdaptableUse *find_use(const Context &context, const PeftModule &module,
                             std::string_view target, int64_t i_layer) {
  const auto n_layer = static_cast<int64_t>(context.base.hparams.n_layer);
  if (i_layer >= n_layer) {
    throw LoadError({.path = context.path,
                     .item = module.path,
                     .problem = "is for a layer that the base does not have",
                     .wanted = fmt::format("below {}", n_layer),
                     .found = std::to_string(i_layer)});
  }
  const auto *use = context.base.find_use(with_layer(target, i_layer));
  if (use != nullptr) check_adaptable(context.path, module.path, *use);
  return use;
}

void check_expert(const Context &context, const PeftModule &module, const AdaptableUse &use,
                  int64_t i_expert) {
  const int64_t n_expert = use.kind == UseKind::experts ? use.ne[2] : 0;
  if (i_expert < n_expert) return;
  throw LoadError({.path = context.path,
                   .item = module.path,
                   .problem = "is for an expert that the base does not have",
                   .wanted = fmt::format("below {}", n_expert),
                   .found = std::to_string(i_expert)});
}

void check_not_nested(const Context &context, const PeftModule &module) {
  if (module.n_wrappers > 0) {
    refuse(context, module.path, "has nested pairs, which is not understood");
  }
}

/// Goes through the rows whose name the module has, until `place` has found a weight for one.
template <class Row>
Placing place_by_rows(
    const Context &context, const PeftModule &module, std::span<const Row> rows,
    const std::function<bool(const Row &row, const NameNumbers &numbers)> &place) {
  const auto bare = bare_module(module.path);
  auto result = Placing::unknown;
  for (const Row &row : rows) {
    const auto numbers = match_name(row.hf_path, bare);
    if (!numbers) continue;
    check_not_nested(context, module);
    if (place(row, *numbers)) return Placing::placed;
    result = Placing::unread;
  }
  return result;
}

Placing place_single(Context &context, const PeftModule &module) {
  const auto place = [&](const NameRow &row, const NameNumbers &numbers) {
    const auto *use = find_use(context, module, row.target, numbers.i_layer);
    if (use == nullptr) return false;
    if (numbers.i_expert >= 0) check_expert(context, module, *use, numbers.i_expert);
    context.placement.single.push_back(
        {.module = &module, .use = use, .plan = row.plan, .i_expert = numbers.i_expert});
    return true;
  };
  return place_by_rows<NameRow>(context, module, context.names.rows, place);
}

Placing place_split(Context &context, const PeftModule &module) {
  const auto place = [&](const SplitRow &row, const NameNumbers &numbers) {
    const auto *use = find_use(context, module, row.target, numbers.i_layer);
    const auto *second_use = find_use(context, module, row.second_target, numbers.i_layer);
    if (use == nullptr || second_use == nullptr) return false;
    if (row.plan == SplitPlan::key_value_heads) {
      context.placement.heads.push_back({.module = &module, .keys = use, .values = second_use});
    } else {
      context.placement.slices.push_back({.module = &module, .slices = {{use}, {second_use}}});
    }
    return true;
  };
  return place_by_rows<SplitRow>(context, module, context.names.splits, place);
}

/// What making the base did to the rows of a weight that the family knows by itself.
RowPlan plan_of(const HfNames &names, std::string_view NameRow::*name, std::string_view wanted) {
  for (const auto &row : names.rows) {
    if (row.*name == wanted) return row.plan;
  }
  return RowPlan::as_is;
}

/// The whole in the adapter, its parts in the base.
Placing place_slices(Context &context, const PeftModule &module) {
  const auto place = [&](const JoinedRow &row, const NameNumbers &numbers) {
    PlacedSlices placed{.module = &module};
    for (size_t i = 0; i < row.n_parts(); ++i) {
      const auto *use = find_use(context, module, row.part_targets[i], numbers.i_layer);
      if (use == nullptr) return false;
      placed.slices.push_back(
          {.use = use, .plan = plan_of(context.names, &NameRow::target, row.part_targets[i])});
    }
    context.placement.slices.push_back(std::move(placed));
    return true;
  };
  return place_by_rows<JoinedRow>(context, module, joined_rows(), place);
}

/// How many rows each part of a whole has: q, k and v by their heads, gate and up halves.
std::vector<int64_t> part_heights(const Context &context, const JoinedRow &row,
                                  const AdaptableUse &whole) {
  const HParams &hp = context.base.hparams;
  const std::vector<int64_t> shares =
      row.n_parts() == 2 ? std::vector<int64_t>{1, 1}
                         : std::vector<int64_t>{hp.n_head, hp.n_head_kv, hp.n_head_kv};
  const int64_t all = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  if (all == 0 || whole.ne[1] % all != 0) {
    refuse(context, whole.name,
           fmt::format("has {} rows in the base, which are no {} equal parts", whole.ne[1], all));
  }
  std::vector<int64_t> heights;
  for (const int64_t share : shares) heights.push_back(share * (whole.ne[1] / all));
  return heights;
}

/// The parts of one weight come one by one.
PlacedJoin &join_of(Context &context, const JoinedRow &row, const AdaptableUse &use) {
  auto &joins = context.placement.joins;
  const auto found = std::ranges::find(joins, &use, &PlacedJoin::use);
  if (found != joins.end()) return *found;
  PlacedJoin join{.use = &use};
  const auto heights = part_heights(context, row, use);
  for (size_t i = 0; i < row.n_parts(); ++i) {
    join.parts.push_back({.n_rows = heights[i],
                          .plan = plan_of(context.names, &NameRow::hf_path, row.part_paths[i])});
  }
  return joins.emplace_back(std::move(join));
}

/// A part in the adapter, the whole in the base. The whole may have the name of its last part.
Placing place_part(Context &context, const PeftModule &module) {
  const auto bare = bare_module(module.path);
  for (const auto &row : joined_rows()) {
    for (size_t i = 0; i < row.n_parts(); ++i) {
      const auto numbers = match_name(row.part_paths[i], bare);
      if (!numbers) continue;
      check_not_nested(context, module);
      const auto *use = find_use(context, module, row.target, numbers->i_layer);
      const bool is_whole =
          find_use(context, module, row.part_targets.front(), numbers->i_layer) == nullptr;
      if (use == nullptr || !is_whole) return Placing::unread;
      auto &part = join_of(context, row, *use).parts[i];
      if (part.module != nullptr)
        refuse(context, module.path,
               fmt::format("and {} both adapt {}", part.module->path, use->name));
      part.module = &module;
      return Placing::placed;
    }
  }
  return Placing::unknown;
}

/// PEFT wraps an experts module once per targeted parameter, the first registered one innermost,
/// and the keys tell nothing but the nesting.
void check_nesting(const Context &context, const PeftModule &module, size_t n_targeted) {
  const auto &pairs = context.modules.pairs;
  const auto n_found =
      static_cast<size_t>(std::count_if(pairs.begin(), pairs.end(), [&](const PeftModule &other) {
        return other.path == module.path;
      }));
  if (n_found == n_targeted && static_cast<size_t>(module.n_wrappers) < n_targeted) return;
  throw LoadError({.path = context.path,
                   .item = module.path,
                   .problem = "has pairs on parameters of experts that cannot be told apart by "
                              "target_parameters",
                   .wanted = fmt::format("{} pairs", n_targeted),
                   .found = std::to_string(n_found)});
}

/// A row of the table that a module matches, and the layer it matches with.
struct MatchedRow {
  const FusedRow *row = nullptr;
  int64_t i_layer = 0;
};

/// The rows of the table for the module whose parameters are targeted, in order; nullopt when it
/// has none at all.
std::optional<std::vector<MatchedRow>> targeted_rows(const Context &context,
                                                     const PeftModule &module) {
  const auto bare = bare_module(module.path);
  std::vector<MatchedRow> targeted;
  bool is_known = false;
  for (const auto &row : context.names.fused) {
    const auto numbers = match_name(row.hf_path, bare);
    if (!numbers) continue;
    is_known = true;
    if (context.config.targets_parameter(fmt::format("{}.{}", module.path, row.parameter))) {
      targeted.push_back({&row, numbers->i_layer});
    }
  }
  return is_known ? std::optional(std::move(targeted)) : std::nullopt;
}

Placing place_fused(Context &context, const PeftModule &module) {
  const auto targeted = targeted_rows(context, module);
  if (!targeted) return Placing::unknown;
  check_nesting(context, module, targeted->size());
  const auto &[found, i_layer] =
      (*targeted)[targeted->size() - 1 - static_cast<size_t>(module.n_wrappers)];
  const FusedRow &row = *found;
  PlacedFused placed{.module = &module,
                     .parameter = fmt::format("{}.{}", module.path, row.parameter)};
  placed.use = find_use(context, module, row.target, i_layer);
  if (placed.use == nullptr) return Placing::unread;
  if (!row.second_target.empty()) {
    placed.second_use = find_use(context, module, row.second_target, i_layer);
    if (placed.second_use == nullptr) return Placing::unread;
  }
  context.placement.fused.push_back(std::move(placed));
  return Placing::placed;
}

/// A module may have several kinds of names; the first whose weight the base has counts.
Placing place_module(Context &context, const PeftModule &module) {
  auto best = Placing::unknown;
  for (const auto place : {place_part, place_single, place_split, place_fused, place_slices}) {
    best = std::max(best, place(context, module));
    if (best == Placing::placed) break;
  }
  return best;
}

void place_all(Context &context) {
  std::vector<std::string> unknown;
  for (const auto &module : context.modules.pairs) {
    const auto placing = place_module(context, module);
    if (placing == Placing::unknown) unknown.push_back(module.path);
    if (placing == Placing::unread) context.unread.push_back(module.path);
  }
  if (!unknown.empty()) {
    refuse(context, first_five(unknown),
           fmt::format("is no module of a {} base that can be adapted", context.base.arch));
  }
  if (!context.unread.empty()) {
    refuse(context, first_five(context.unread),
           fmt::format("has no partner: the graph of this {} base reads no such weight",
                       context.base.arch));
  }
}

void check_each_use_once(const Context &context) {
  // -1 stands for all experts and clashes with each of them.
  std::map<std::string, std::map<int64_t, std::string>> claims;
  const auto claim = [&](const AdaptableUse &use, int64_t i_expert, const PeftModule &module) {
    auto &of_use = claims[use.name];
    const bool clashes =
        !of_use.empty() && (i_expert < 0 || of_use.contains(-1) || of_use.contains(i_expert));
    if (clashes) {
      refuse(context, module.path,
             fmt::format("and {} both adapt {}", of_use.begin()->second, use.name));
    }
    of_use[i_expert] = module.path;
  };
  for (const auto &placed : context.placement.single) {
    claim(*placed.use, placed.i_expert, *placed.module);
  }
  for (const auto &placed : context.placement.slices) {
    for (const auto &slice : placed.slices) claim(*slice.use, -1, *placed.module);
  }
  for (const auto &placed : context.placement.joins) {
    const auto first = std::ranges::find_if(
        placed.parts, [](const PlacedJoin::Part &part) { return part.module != nullptr; });
    claim(*placed.use, -1, *first->module);
  }
  for (const auto &placed : context.placement.heads) {
    claim(*placed.keys, -1, *placed.module);
    claim(*placed.values, -1, *placed.module);
  }
  for (const auto &placed : context.placement.fused) {
    claim(*placed.use, -1, *placed.module);
    if (placed.second_use != nullptr) claim(*placed.second_use, -1, *placed.module);
  }
}

/// PEFT refuses aLoRA on embeddings and experts, so nobody can say what it would mean.
void check_alora(const Context &context) {
  if (context.config.invocation_tokens.empty()) return;
  for (const auto &placed : context.placement.single) {
    if (placed.use->kind == UseKind::linear) continue;
    refuse(context, placed.module->path,
           "is an embedding or an expert, and aLoRA on these is not supported");
  }
}

}  // namespace

Placement place_modules(const PeftConfig &config, const std::string &path,
                        const PeftModules &modules, const BaseInfo &base) {
  Context context{.config = config,
                  .path = path,
                  .modules = modules,
                  .base = base,
                  .names = names_of(path, base)};
  place_all(context);
  check_each_use_once(context);
  check_alora(context);
  return std::move(context.placement);
}

}  // namespace patchbay
