#pragma once

#include <string>
#include <string_view>

namespace patchbay {

// How GGUF files name a weight and its bias.
inline constexpr std::string_view k_weight_suffix = ".weight";
inline constexpr std::string_view k_bias_suffix = ".bias";

/// "blk.0.attn_q.bias" for "blk.0.attn_q.weight". REQUIRES: it ends so.
[[nodiscard]] inline std::string bias_of(std::string_view weight) {
  weight.remove_suffix(k_weight_suffix.size());
  return std::string(weight).append(k_bias_suffix);
}

/// "blk.0.attn_q.weight" for "blk.0.attn_q.bias"; empty for what is no bias.
[[nodiscard]] inline std::string weight_of_bias(std::string_view tensor) {
  if (!tensor.ends_with(k_bias_suffix)) return {};
  tensor.remove_suffix(k_bias_suffix.size());
  return std::string(tensor).append(k_weight_suffix);
}

}  // namespace patchbay
