#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// The two halves of a pair as a GGUF adapter names them, TARGET.lora_a and TARGET.lora_b; null
/// when the file has none. Views into the file.
struct GgufHalves {
  const GgufTensor *a = nullptr;
  const GgufTensor *b = nullptr;
};

/// The tensors of a GGUF adapter by what their names say.
struct GgufAdapterTensors {
  std::map<std::string, GgufHalves, std::less<>> pairs;  ///< by target; one half may be null
  std::vector<const GgufTensor *> others;                ///< no half of a pair, in file order
};

[[nodiscard]] GgufAdapterTensors sort_halves(const GgufFile &file);

/// The alpha of a GGUF adapter over its rank; absent, which reads as 0, and 0 mean "scale 1", as in
/// llama.cpp. May overflow F32. REQUIRES: n_rank > 0.
[[nodiscard]] double gguf_scale(double alpha, int64_t n_rank);

// Keys of a GGUF adapter's metadata.
inline constexpr const char *k_gguf_alpha = "adapter.lora.alpha";
inline constexpr const char *k_gguf_invocation_tokens = "adapter.alora.invocation_tokens";
inline constexpr const char *k_gguf_task_name = "adapter.lora.task_name";
inline constexpr const char *k_gguf_prompt_prefix = "adapter.lora.prompt_prefix";
inline constexpr const char *k_gguf_base_name = "general.base_model.0.name";

}  // namespace patchbay
