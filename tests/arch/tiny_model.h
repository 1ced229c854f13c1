#pragma once

#include <ggml.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "arch/decoder.h"
#include "arch/family.h"
#include "arch/tiny_folding.h"
#include "gguf/gguf_builder.h"

namespace patchbay {

/// A made-up model of a real family: random weights over the family's own tensor table.
struct TinyModel {
  std::string name;  ///< for test output
  const Family *family = nullptr;
  HParams hparams;
  bool tied_head = false;
  bool biases = false;
  ggml_type type = GGML_TYPE_F32;  ///< of all matrices
  uint64_t seed = 1;
  TinyFolding folding = {};

  /// For GoogleTest, which would print the bytes.
  inline void PrintTo(const TinyModel &model, std::ostream *out) { *out << model.name; }
};

inline HParams tiny_hparams() {
  HParams hp;
  hp.n_vocab = 48;
  hp.n_ctx_train = 128;
  hp.n_embd = 32;
  hp.n_layer = 2;
  hp.n_head = 4;
  hp.n_head_kv = 2;
  hp.n_embd_head = 8;
  hp.n_rot = 8;
  hp.n_ff = 64;
  return hp;
}

inline TinyModel tiny_llama() {
  return {.name = "llama", .family = &k_llama, .hparams = tiny_hparams(), .biases = true};
}

inline TinyModel tiny_tied_llama() {
  return {.name = "llama_tied", .family = &k_llama, .hparams = tiny_hparams(), .tied_head = true};
}

inline TinyModel tiny_mixtral() {
  TinyModel model{.name = "llama_experts", .family = &k_llama, .hparams = tiny_hparams()};
  model.hparams.n_expert = 4;
  model.hparams.n_expert_used = 2;
  return model;
}

inline TinyModel tiny_gemma3() {
  TinyModel model{
      .name = "gemma3", .family = &k_gemma3, .hparams = tiny_hparams(), .tied_head = true};
  model.hparams.n_layer = 7;  // the sixth is the first that sees everything
  model.hparams.n_swa = 4;
  return model;
}

/// The same model with all of its matrices Hadamard-folded: it computes the same, by another way.
inline TinyModel folded(TinyModel model, TinyFolding folding = {.block_size = 16}) {
  model.name += "_folded";
  model.folding = std::move(folding);
  return model;
}

/// Every family, and every way in which its graph can differ.
inline std::vector<TinyModel> all_tiny_models() {
  return {tiny_llama(),         tiny_tied_llama(),      tiny_mixtral(),       tiny_gemma3(),
          folded(tiny_llama()), folded(tiny_mixtral()), folded(tiny_gemma3())};
}

/// Random numbers of a tensor, F32: matrices keep the size of their input, norms lie around one.
inline std::vector<float> random_values(const TensorSpec &spec, std::mt19937_64 &random) {
  const bool is_norm =
      spec.role == TensorRole::vector && spec.name.find("norm") != std::string::npos;
  const float center = is_norm ? 1.0F : 0.0F;
  const float sigma = spec.role == TensorRole::vector ? 0.2F
                      : spec.role == TensorRole::table
                          ? 1.0F
                          : 1 / std::sqrt(static_cast<float>(spec.ne[0]));
  std::normal_distribution<float> normal(center, sigma);
  std::vector<float> values(static_cast<size_t>(spec.ne[0] * spec.ne[1] * spec.ne[2]));
  for (float &value : values) value = normal(random);
  return values;
}

inline std::string encode(ggml_type type, int64_t n_per_row, const std::vector<float> &values) {
  const auto n_rows = static_cast<int64_t>(values.size()) / n_per_row;
  std::string bytes(ggml_row_size(type, n_per_row) * static_cast<size_t>(n_rows), '\0');
  ggml_quantize_chunk(type, values.data(), bytes.data(), 0, n_rows, n_per_row, nullptr);
  return bytes;
}

inline void set_metadata(GgufBuilder &file, const TinyModel &model) {
  const HParams &hp = model.hparams;
  const std::string arch(model.family->name);
  file.set("general.architecture", arch)
      .set("general.name", "tiny " + model.name)
      .set(arch + ".context_length", hp.n_ctx_train)
      .set(arch + ".embedding_length", hp.n_embd)
      .set(arch + ".block_count", hp.n_layer)
      .set(arch + ".feed_forward_length", hp.n_ff)
      .set(arch + ".attention.head_count", hp.n_head)
      .set(arch + ".attention.head_count_kv", hp.n_head_kv)
      .set(arch + ".attention.key_length", hp.n_embd_head)
      .set(arch + ".attention.value_length", hp.n_embd_head)
      .set(arch + ".rope.dimension_count", hp.n_rot)
      .set(arch + ".attention.layer_norm_rms_epsilon", hp.norm_rms_eps);
  if (hp.n_expert > 0) {
    file.set(arch + ".expert_count", hp.n_expert)
        .set(arch + ".expert_used_count", hp.n_expert_used);
  }
  if (hp.n_swa > 0) file.set(arch + ".attention.sliding_window", hp.n_swa);
}

/// The model as a GGUF image. `change` may alter the numbers of a tensor (by name) before they are
/// folded and written.
inline GgufBuilder build_tiny_model(
    const TinyModel &model,
    const std::function<void(const TensorSpec &, std::vector<float> &)> &change = {}) {
  GgufBuilder file;
  set_metadata(file, model);
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*model.family, model.hparams, unbound);
  FoldedNames folded_names;
  std::mt19937_64 random(model.seed);
  for (const auto &spec : table.specs()) {
    const bool is_bias = spec.name.ends_with(".bias");
    const bool left_out = spec.name == "rope_freqs.weight" || (is_bias && !model.biases) ||
                          (spec.name == "output.weight" && model.tied_head);
    if (left_out) continue;
    std::vector<float> values = random_values(spec, random);
    if (change) change(spec, values);
    fold(model.folding, spec, values, folded_names);
    const ggml_type type = spec.role == TensorRole::vector ? GGML_TYPE_F32 : model.type;
    file.add_tensor(spec.name, type, {spec.ne[0], spec.ne[1], spec.ne[2]},
                    encode(type, spec.ne[0], values));
  }
  if (model.folding.block_size > 0) set_folding(file, model.folding, folded_names);
  return file;
}

}  // namespace patchbay
