#include "engine/loaded_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "arch/decoder.h"
#include "base/error.h"
#include "base/log.h"
#include "model/base_tensors.h"
#include "model/layout_summary.h"

namespace patchbay {
namespace {

BaseInfo describe(const GgufFile &file, const Family &family) {
  return {.path = file.path(),
          .arch = std::string(family.name),
          .name = file.get_string("general.name").value_or(""),
          .hparams = family.hparams(file),
          .hf_names = family.hf_names};
}

void check_vocabulary(const LoadedModel &model) {
  if (model.tokenizer == nullptr) return;
  const auto n_tokens = static_cast<uint32_t>(model.tokenizer->n_vocab());
  if (n_tokens <= model.hparams().n_vocab) return;
  throw LoadError({.path = model.info.path,
                   .item = "tokenizer.ggml.tokens",
                   .problem = "holds more tokens than token_embd.weight has rows",
                   .wanted = fmt::format("at most {}", model.hparams().n_vocab),
                   .found = fmt::format("{}", n_tokens)});
}

/// Loads the weights and says how they lie and what that took.
void load_weights(LoadedModel &model, const TensorTable &table, const WeightOptions &options,
                  const LoadProgress &progress) {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  model.store = std::make_unique<const WeightStore>(model.file, table, options, progress);
  const std::chrono::duration<double, std::milli> took = steady_clock::now() - start;
  log().info("{}: weights {}, in {:.0f} ms", model.info.path,
             to_string(LayoutSummary::of(model.store->plan())), took.count());
}

}  // namespace

WeightPlan plan_weights(const LoadedModel &model, const WeightOptions &options) {
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*model.family, model.hparams(), unbound);
  return plan_weights(*model.file, table, options);
}

std::shared_ptr<const LoadedModel> load_model(const std::filesystem::path &path,
                                              const WeightOptions &options,
                                              const LoadProgress &progress) {
  route_ggml_log();
  auto model = std::make_shared<LoadedModel>();
  model->file = std::make_shared<const GgufFile>(GgufFile::open(path));
  model->family = &family_of(*model->file);
  model->info = describe(*model->file, *model->family);
  const auto folding = read_hadamard(*model->file);
  const TensorTable table = make_tensor_table(*model->family, model->hparams(), model->weights);
  load_weights(*model, table, options, progress);
  if (folding)
    model->rotations = std::make_unique<const RotationStore>(path.string(), *folding, table);
  model->info.tied_head = std::ranges::any_of(table.specs(), &TensorSpec::is_tied);
  record_adaptable(*model->family, model->weights, model->info);
  model->info.tensors = std::make_shared<const BaseTensors>(model->file, folding);
  if (folding) settle_folding(*folding, model->info);
  model->tokenizer = Tokenizer::load(*model->file);
  check_vocabulary(*model);
  return model;
}

}  // namespace patchbay
