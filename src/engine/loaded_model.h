#pragma once

#include <memory>

#include "arch/family.h"
#include "engine/model_digest.h"
#include "grammar/lazy_token_trie.h"
#include "model/base_info.h"
#include "model/rotation_store.h"
#include "model/weight_store.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {

/// A model file, checked and ready to compute. Immutable once made; shared by sessions and threads.
struct LoadedModel {
  std::shared_ptr<const GgufFile> file;
  const Family *family = nullptr;
  BaseInfo info;  ///< with the uses that adapters may target
  std::unique_ptr<const WeightStore> store;
  std::unique_ptr<const RotationStore> rotations;  ///< null: no weight is Hadamard-folded
  DecoderWeights weights;                          ///< views into both
  std::shared_ptr<const Tokenizer> tokenizer;      ///< null: the file has none
  ModelDigest digest;                              ///< of the file
  LazyTokenTrie token_trie;                        ///< of the tokenizer, for grammars

  [[nodiscard]] const HParams &hparams() const { return info.hparams; }
};

/// How the model's weights lie in memory when it is loaded with these options.
[[nodiscard]] WeightPlan plan_weights(const LoadedModel &model, const WeightOptions &options = {});

/// Throws LoadError.
[[nodiscard]] std::shared_ptr<const LoadedModel> load_model(const std::filesystem::path &path,
                                                            const WeightOptions &options = {},
                                                            const LoadProgress &progress = {});

}  // namespace patchbay
