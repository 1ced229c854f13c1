#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace patchbay {

/// What one tensor of a PEFT file is for.
enum class PeftRole {
  pair_a,           ///< lora_A [n_rank, n_in] in torch order
  pair_b,           ///< lora_B [n_out, n_rank]
  embed_a,          ///< lora_embedding_A [n_rank, n_rows]
  embed_b,          ///< lora_embedding_B [n_out, n_rank]
  base_copy,        ///< a copy of the base weight, or a companion of a quantised one
  training_buffer,  ///< of no use at inference
  base_bias,        ///< a new bias of a targeted module
  lora_bias,
  magnitude,      ///< DoRA
  token_rows,     ///< trainable_token_indices
  whole_tensor,   ///< modules_to_save, save_embedding_layers, bias="all"
  adalora_scale,  ///< lora_E
  kasa_diagonal,  ///< lora_diag
};

/// Which half of which kind of pair a tensor is.
struct PeftHalf {
  bool is_a = false;  ///< else B
  bool is_embedding = false;
};

/// nullopt for the roles that are no half of a pair.
[[nodiscard]] std::optional<PeftHalf> half_of(PeftRole role);

/// A key of adapter_model.safetensors, taken apart.
struct PeftKey {
  /// Path in the model that was trained, e.g. "model.layers.0.self_attn.q_proj".
  std::string module_path;
  /// How many `base_layer` stand behind it: nested wrappers of expert parameters.
  int n_wrappers = 0;
  PeftRole role = PeftRole::pair_a;
  std::string adapter_name;  ///< "default" in "lora_A.default.weight"; mostly empty
};

/// nullopt when the key follows no known form.
[[nodiscard]] std::optional<PeftKey> parse_peft_key(std::string_view key);

/// `module` without the levels that only some wrappers have: "model.language_model.layers.0.mlp" ->
/// "layers.0.mlp".
[[nodiscard]] std::string bare_module(std::string_view module);

/// Whether the module belongs to the picture or sound part of a multimodal model.
[[nodiscard]] bool is_vision_or_audio(std::string_view module);

/// The numbers that stood in place of `#` and `@`.
struct NameNumbers {
  int64_t i_layer = -1;
  int64_t i_expert = -1;
};

/// Matches `name` with a name that has `#` and `@` in it.
[[nodiscard]] std::optional<NameNumbers> match_name(std::string_view pattern,
                                                    std::string_view name);

/// Puts the layer in place of `#`.
[[nodiscard]] std::string with_layer(std::string_view pattern, int64_t i_layer);

}  // namespace patchbay
