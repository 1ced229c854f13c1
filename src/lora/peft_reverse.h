#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// A pair as PEFT has it, under the name of today's transformers.
struct NamedPair {
  std::string module;     ///< "model.layers.0.self_attn.q_proj"
  std::string parameter;  ///< full path where a parameter is targeted; empty: the module is
  int n_wrappers = 0;     ///< of parameters of one module, the first registered innermost
  bool is_embedding = false;
  int64_t n_rank = 0;
  float scale = 1;
  Factor a;  ///< [n_in, n_rank]; all experts: [n_in, n_rank n_expert]; look-up [n_rows, n_rank]
  Factor b;  ///< [n_rank, n_out]; all experts: [n_rank n_expert, n_out]
  Factor magnitude{.ne = {0, 1, 1}};  ///< [n_out]; without elements: none
  Factor bias{.ne = {0, 1, 1}};       ///< [n_out]; without elements: none

  /// By what rank_pattern and alpha_pattern know it.
  [[nodiscard]] const std::string &pattern_name() const {
    return parameter.empty() ? module : parameter;
  }
};

/// Undoes what making the GGUF base did to the weights. Throws LoadError: a target that the base's
/// table of names does not have, or that PEFT cannot adapt alone.
[[nodiscard]] std::vector<NamedPair> name_pairs(const Adapter &adapter, const BaseInfo &base);

/// A tensor, or some rows of one, that stands in place of the base's.
struct NamedReplacement {
  std::string module;  ///< "model.norm"
  std::string leaf;    ///< "weight", "bias"
  Factor value;
  std::vector<int32_t> rows;  ///< empty: the whole tensor
};

/// The same for replacements. The rows of a tied head are those of the look-up, and left out.
[[nodiscard]] std::vector<NamedReplacement> name_replacements(const Adapter &adapter,
                                                              const BaseInfo &base);

}  // namespace patchbay
