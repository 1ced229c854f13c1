#pragma once

#include <span>
#include <string_view>

#include "gguf/gguf_file.h"
#include "graph/graph.h"
#include "model/hf_names.h"
#include "model/hparams.h"
#include "model/tensor_table.h"

namespace patchbay {

/// One model family: everything that its file under arch/ says.
struct Family {
  std::string_view name;  ///< general.architecture

  /// Reads and bounds the hyper-parameters. Throws LoadError.
  HParams (*hparams)(const GgufFile &file);

  /// The tensor table; binds into `weights`, whose layers are already there.
  void (*tensors)(const HParams &hparams, DecoderWeights &weights, TensorTable &table);

  /// One layer: x F32 [n_embd, n_tokens] -> the same shape, or [n_embd, n_outputs] from the last
  /// one.
  ggml_tensor *(*layer)(Graph &g, const DecoderWeights &weights, uint32_t il, ggml_tensor *x);

  /// What PEFT adapters call its weights; null: only GGUF adapters can be loaded.
  const HfNames *hf_names = nullptr;
};

[[nodiscard]] std::span<const Family> families();

/// The family of a model file. Throws LoadError when general.architecture is absent, or none of
/// ours; an adapter given as a model is told apart.
[[nodiscard]] const Family &family_of(const GgufFile &file);

// One per file of this folder.
extern const Family k_llama;
extern const Family k_gemma3;

}  // namespace patchbay
