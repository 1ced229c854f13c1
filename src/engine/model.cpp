#include "patchbay/model.hpp"

#include "engine/loaded_model.h"
#include "lora/adapter.h"

namespace patchbay {

std::shared_ptr<const Model> Model::load(const std::filesystem::path &path,
                                         const ModelOptions &options) {
  WeightOptions weights = options.repack ? WeightOptions{} : WeightOptions::as_stored();
  weights.layout.pack = weights.layout.pack && options.own_products;
  return std::shared_ptr<const Model>(
      new Model(load_model(path, weights, options.progress), options.adapters));
}

std::shared_ptr<const Adapter> Model::load_adapter(const std::filesystem::path &path,
                                                   std::string name) const {
  return patchbay::load_adapter(path, loaded_->info, std::move(name), adapters_);
}

bool Model::has_tokenizer() const { return loaded_->tokenizer != nullptr; }

std::vector<int32_t> Model::tokenize(std::string_view text, bool add_special) const {
  if (!has_tokenizer()) return {};
  return loaded_->tokenizer->encode(text, {.add_special = add_special});
}

std::string Model::detokenize(const std::vector<int32_t> &tokens) const {
  return has_tokenizer() ? loaded_->tokenizer->decode(tokens) : std::string();
}

uint32_t Model::n_vocab() const { return loaded_->hparams().n_vocab; }

uint32_t Model::n_ctx_train() const { return loaded_->hparams().n_ctx_train; }

}  // namespace patchbay
