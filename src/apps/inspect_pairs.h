#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/inspect_norms.h"

namespace patchbay {

/// One low-rank pair of an adapter as `inspect` shows it.
struct PairReport {
  std::string target;  ///< GGUF name of the weight; module of a PEFT file that was not resolved
  std::string kind;    ///< "linear", "embed", "experts"
  std::optional<int64_t> n_rank;  ///< none: the files alone do not say
  std::optional<double> scale;    ///< the same
  std::string type_a;             ///< "f32", "f16", ...
  std::string type_b;
  std::vector<int64_t> ne_a;  ///< ggml order
  std::vector<int64_t> ne_b;
  size_t size_bytes = 0;
  std::optional<PairNorms> norms;
  std::optional<double> norm_weight;  ///< of the base's weight; none: no base was read
  /// How far all that the adapter does moves that weight, see WeightMovement; none: not known.
  std::optional<double> relative_change;
};

/// The pair of a checked adapter.
[[nodiscard]] PairReport report_pair(const FactorPair &pair, bool with_norms);

/// The name of a weight or module taken apart: "blk.3.attn_q.weight" -> {"attn_q", 3},
/// "layers.3.self_attn.q_proj" ->
/// {"self_attn.q_proj", 3}. Further numbers, of experts, become `*`.
struct TargetName {
  std::string module;
  std::optional<uint64_t> layer;
};
[[nodiscard]] TargetName split_target(std::string_view name);

/// A name with its kind, for summaries.
struct NamedUse {
  std::string_view name;
  std::string_view kind;
};

// JSON of what is shown.
[[nodiscard]] std::string_view to_string(UseKind kind);
[[nodiscard]] double readable(
    float value);  ///< the double with the shortest decimals that mean `value`
[[nodiscard]] nlohmann::ordered_json pair_json(const PairReport &pair);
/// [{n_rank, n_pairs}], ascending.
[[nodiscard]] nlohmann::ordered_json ranks_json(std::span<const PairReport> pairs);
/// [{scale, n_pairs}], ascending.
[[nodiscard]] nlohmann::ordered_json scales_json(std::span<const PairReport> pairs);
/// [{module, kind, n_targets, layers}] in order of first appearance.
[[nodiscard]] nlohmann::ordered_json modules_json(std::span<const NamedUse> uses);

}  // namespace patchbay
