#include "apps/inspect_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>

namespace patchbay {
namespace {

using nlohmann::ordered_json;

std::vector<int64_t> dims(const Factor &factor) {
  const ptrdiff_t n_dims = factor.ne[2] == 1 ? 2 : 3;
  return {factor.ne.begin(), factor.ne.begin() + n_dims};
}

template <class T>
ordered_json or_null(const std::optional<T> &value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

void append(std::string &module, std::string_view component) {
  if (!module.empty()) module += '.';
  module += component;
}

/// [{key, n_pairs}] of one property, ascending; pairs without it are not counted.
template <class Value>
ordered_json counts(const char *key, std::span<const PairReport> pairs,
                    std::optional<Value> PairReport::*property) {
  std::map<Value, size_t> n_pairs;
  for (const auto &pair : pairs) {
    const auto &value = pair.*property;
    if (value && *value == *value) n_pairs[*value]++;  // a NaN has no place in an order
  }
  ordered_json json = ordered_json::array();
  for (const auto &[value, n] : n_pairs) json.push_back({{key, value}, {"n_pairs", n}});
  return json;
}

/// What modules_json gathers about one module.
struct Module {
  std::string name;
  std::string_view kind;
  size_t n_targets = 0;
  std::set<uint64_t> layers;
};

Module &find_or_add(std::vector<Module> &modules, std::string name, std::string_view kind) {
  const auto found = std::find_if(modules.begin(), modules.end(), [&](const Module &module) {
    return module.name == name && module.kind == kind;
  });
  if (found != modules.end()) return *found;
  modules.push_back({.name = std::move(name), .kind = kind});
  return modules.back();
}

}  // namespace

std::string_view to_string(UseKind kind) {
  switch (kind) {
    case UseKind::linear:
      return "linear";
    case UseKind::embed:
      return "embed";
    case UseKind::experts:
      return "experts";
  }
  return "linear";
}

double readable(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

PairReport report_pair(const FactorPair &pair, bool with_norms) {
  return {.target = pair.target,
          .kind = std::string(to_string(pair.kind)),
          .n_rank = pair.n_rank,
          .scale = readable(pair.scale),
          .type_a = ggml_type_name(pair.a.type),
          .type_b = ggml_type_name(pair.b.type),
          .ne_a = dims(pair.a),
          .ne_b = dims(pair.b),
          .size_bytes = pair.a.data.size() + pair.b.data.size(),
          .norms = with_norms ? pair_norms(pair) : std::nullopt};
}

TargetName split_target(std::string_view full_name) {
  TargetName target;
  constexpr std::string_view k_weight = ".weight";
  std::string_view name = full_name;
  if (name.ends_with(k_weight)) name.remove_suffix(k_weight.size());
  while (!name.empty()) {
    const auto component = name.substr(0, name.find('.'));
    name.remove_prefix(std::min(component.size() + 1, name.size()));
    const auto number = parse_number(component);
    if (!number) {
      append(target.module, component);
    } else if (target.layer) {
      append(target.module, "*");
    } else {
      target.layer = number;
      target.module.clear();  // "blk", "layers"
    }
  }
  if (target.module.empty()) target.module = full_name;
  return target;
}

ordered_json pair_json(const PairReport &pair) {
  ordered_json json{
      {"target", pair.target},        {"kind", pair.kind},     {"n_rank", or_null(pair.n_rank)},
      {"scale", or_null(pair.scale)}, {"type_a", pair.type_a}, {"type_b", pair.type_b},
      {"shape_a", pair.ne_a},         {"shape_b", pair.ne_b},  {"size_bytes", pair.size_bytes}};
  const bool known = pair.norms.has_value();
  json["norm_a"] = known ? ordered_json(pair.norms->a) : ordered_json(nullptr);
  json["norm_b"] = known ? ordered_json(pair.norms->b) : ordered_json(nullptr);
  json["norm_delta"] = known ? ordered_json(pair.norms->delta) : ordered_json(nullptr);
  json["norm_weight"] = or_null(pair.norm_weight);
  json["relative_change"] = or_null(pair.relative_change);
  return json;
}

ordered_json ranks_json(std::span<const PairReport> pairs) {
  return counts("n_rank", pairs, &PairReport::n_rank);
}

ordered_json scales_json(std::span<const PairReport> pairs) {
  return counts("scale", pairs, &PairReport::scale);
}

ordered_json modules_json(std::span<const NamedUse> uses) {
  std::vector<Module> modules;
  for (const auto &use : uses) {
    auto [name, layer] = split_target(use.name);
    Module &module = find_or_add(modules, std::move(name), use.kind);
    module.n_targets++;
    if (layer) module.layers.insert(*layer);
  }
  ordered_json json = ordered_json::array();
  for (const auto &module : modules) {
    json.push_back({{"module", module.name},
                    {"kind", module.kind},
                    {"n_targets", module.n_targets},
                    {"layers", module.layers}});
  }
  return json;
}

}  // namespace patchbay
