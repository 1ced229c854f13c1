#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "patchbay/adapter_options.hpp"

namespace patchbay {

struct Adapter;
struct LoadedModel;

struct ModelOptions {
  /// Copy weights into faster layouts where they pay, and those that read one input into one tensor
  /// where Patchbay's own kernels do not multiply them; off: everything stays mapped.
  bool repack = true;
  /// With repack: multiply by Patchbay's own kernels where they are faster; off: by ggml's only.
  bool own_products = true;
  /// How adapters are loaded for it.
  AdapterLoadOptions adapters{};
  /// Called with bytes done and bytes in all while weights are copied, from the loading thread.
  std::function<void(size_t done_bytes, size_t all_bytes)> progress{};
};

/// A GGUF base model in memory. Immutable: share it between threads and sessions.
class Model {
 public:
  /// Throws LoadError.
  [[nodiscard]] static std::shared_ptr<const Model> load(const std::filesystem::path &path,
                                                         const ModelOptions &options = {});

  /// A GGUF adapter file or a PEFT folder, checked against this model. Throws LoadError; never
  /// loads half an adapter. `name` is what statistics and sessions call it; empty: the file stem or
  /// folder name.
  [[nodiscard]] std::shared_ptr<const Adapter> load_adapter(const std::filesystem::path &path,
                                                            std::string name = {}) const;

  [[nodiscard]] bool has_tokenizer() const;
  /// Token ids as the model's own tokenizer gives them, special tokens in the text included. Empty
  /// without a tokenizer.
  [[nodiscard]] std::vector<int32_t> tokenize(std::string_view text, bool add_special = true) const;
  [[nodiscard]] std::string detokenize(const std::vector<int32_t> &tokens) const;

  [[nodiscard]] uint32_t n_vocab() const;
  [[nodiscard]] uint32_t n_ctx_train() const;

  /// The inside, for the library's own use.
  [[nodiscard]] const std::shared_ptr<const LoadedModel> &loaded() const { return loaded_; }

 private:
  Model(std::shared_ptr<const LoadedModel> loaded, const AdapterLoadOptions &adapters)
      : loaded_(std::move(loaded)), adapters_(adapters) {}

  std::shared_ptr<const LoadedModel> loaded_;
  AdapterLoadOptions adapters_;
};

}  // namespace patchbay
