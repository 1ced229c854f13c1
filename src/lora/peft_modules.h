#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "gguf/safetensors_file.h"

namespace patchbay {

/// Two tensors that belong together; null until found.
struct PeftHalves {
  const SafeTensor *a = nullptr;
  const SafeTensor *b = nullptr;
};

/// The pair of one module. The tensors are views into the file.
struct PeftModule {
  std::string path;    ///< in the model that was trained, e.g. "model.layers.0.self_attn.q_proj"
  int n_wrappers = 0;  ///< nesting of expert parameters, 0 is the outermost
  bool is_embedding = false;
  const SafeTensor *a = nullptr;            ///< torch [n_rank, n_in], embedding [n_rank, n_rows]
  const SafeTensor *b = nullptr;            ///< torch [n_out, n_rank]
  const SafeTensor *base_weight = nullptr;  ///< copy of the base's, where the file has one
  const SafeTensor *magnitude = nullptr;    ///< of DoRA: torch [n_out]; null: none
  const SafeTensor *bias = nullptr;         ///< of lora_B: torch [n_out]; null: none
};

/// A tensor that stands in place of one of the base's, or of some rows of it.
struct PeftReplacement {
  std::string path;  ///< of the module, as in PeftModule
  bool is_bias = false;
  bool is_rows = false;  ///< trainable_token_indices
  const SafeTensor *tensor = nullptr;
};

/// All that a PEFT weight file holds.
struct PeftModules {
  std::vector<PeftModule> pairs;              ///< sorted by path, both halves there
  std::vector<PeftReplacement> replacements;  ///< in file order; with `pairs` at least one thing
  size_t n_base_copies = 0;
  size_t n_training_buffers = 0;
};

/// Gives every tensor of the file its role. Throws LoadError for a tensor without a known role or
/// with one that is not supported, for half a pair, a role taken twice, several adapters in one
/// file, neither a pair nor a replacement. `n_vocab` is the base's: a whole table of another height
/// means that the vocabulary was resized.
[[nodiscard]] PeftModules group_modules(const SafetensorsFile &file, uint32_t n_vocab);

}  // namespace patchbay
