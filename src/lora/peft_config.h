#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lora/peft_pattern.h"
#include "model/base_info.h"

namespace patchbay {

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
  bool ties_weights = false;  ///< `ensure_weight_tying`
  std::vector<int32_t> invocation_tokens;
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
};

/// Whether `suffix` is all of `path` or its last components.
[[nodiscard]] bool ends_with_components(std::string_view path, std::string_view suffix);

/// Reads and checks adapter_config.json. Every option that cannot be honoured exactly is refused by
/// its name. Throws LoadError. Any thread.
[[nodiscard]] PeftConfig read_peft_config(const std::filesystem::path &path, const BaseInfo &base);

}  // namespace patchbay
