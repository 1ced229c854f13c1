#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lora/adapter.h"
#include "lora/peft_pattern.h"
#include "model/base_info.h"

namespace patchbay {

/// `use_bdlora`: one half of a pair is block-diagonal and stored without the zeros.
struct BlockDiagonal {
  int64_t n_blocks = 1;
  std::vector<std::string> a;  ///< found in the names of modules whose A is
  std::vector<std::string> b;
};

/// The tokens that `trainable_token_indices` names for one table, in the order of their rows.
struct TrainableTokens {
  std::string module;  ///< components at the end of the table's path
  std::vector<int64_t> tokens;
};

/// What an adapter_config.json says that matters for inference. Whatever it asks for beyond this
/// has been refused.
struct PeftConfig {
  std::string path;
  int64_t n_rank = 0;            ///< `r`
  double alpha = 0;              ///< `lora_alpha`; 0 and negative are legal and mean what they say
  bool rank_stabilized = false;  ///< `use_rslora` (arXiv 2312.03732): alpha / sqrt(rank)
  PatternTable rank_pattern;
  PatternTable alpha_pattern;
  std::vector<std::string> target_modules;     ///< empty when given as a regular expression
  std::vector<std::string> target_parameters;  ///< suffixes of parameter names
  std::optional<std::array<int64_t, 3>> peft_version;
  bool ties_weights = false;            ///< `ensure_weight_tying`
  bool uses_dora = false;               ///< `use_dora`
  bool has_lora_bias = false;           ///< `lora_bias`
  std::optional<int64_t> qalora_group;  ///< `qalora_group_size` with `use_qalora`
  std::optional<BlockDiagonal> block_diagonal;
  std::vector<TrainableTokens> trainable_tokens;
  std::vector<int64_t> invocation_tokens;  ///< each 0 or above
  /// `layer_replication`, when it is set, keeps all layers of a base with that many and no others.
  std::optional<int64_t> n_layer_kept;
  std::string base_name;
  std::vector<std::string> notes;

  /// Whether `target_parameters` names this parameter, a full path such as
  /// "model.layers.0.mlp.experts.down_proj".
  [[nodiscard]] bool targets_parameter(std::string_view parameter) const;
  /// What a module is called where rank_pattern and alpha_pattern look it up: its path, with
  /// ".weight" when its parameter was targeted and not the module.
  [[nodiscard]] std::string pattern_name(const std::string &module) const;
  /// The rank that the config states for a module or parameter, by the name that patterns use.
  [[nodiscard]] int64_t rank_of(std::string_view module) const;
  /// The scale of a module: alpha / rank or alpha / sqrt(rank).
  [[nodiscard]] double scale_of(std::string_view module, int64_t n_rank_found) const;
  /// The same for use. Throws LoadError: it overflows F32.
  [[nodiscard]] float f32_scale_of(const std::string &module, int64_t n_rank_found) const;
};

/// Reads adapter_config.json. Every option that cannot be honoured exactly, whatever the base, is
/// refused by its name. Throws LoadError. Any thread.
[[nodiscard]] PeftConfig read_peft_config(const std::filesystem::path &path,
                                          const AdapterLoadOptions &options = {});

/// Refuses a `layer_replication` that belongs to a base with other layers. Throws LoadError.
void check_layers(const PeftConfig &config, const BaseInfo &base);

/// The invocation tokens, checked against the base's vocabulary. Throws LoadError.
[[nodiscard]] std::vector<int32_t> invocation_tokens_for(const PeftConfig &config,
                                                         const BaseInfo &base);

}  // namespace patchbay
