#include "apps/inspect_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "apps/inspect_metadata.h"
#include "apps/inspect_pairs.h"
#include "base/error.h"
#include "engine/loaded_model.h"
#include "model/layout_summary.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

ordered_json rope_json(const RopeParams &rope) {
  return {{"neox", rope.neox},
          {"freq_base", readable(rope.freq_base)},
          {"freq_scale", readable(rope.freq_scale)},
          {"ext_factor", readable(rope.ext_factor)},
          {"attn_factor", readable(rope.attn_factor)},
          {"beta_fast", readable(rope.beta_fast)},
          {"beta_slow", readable(rope.beta_slow)},
          {"n_ctx_orig", rope.n_ctx_orig}};
}

ordered_json hparams_json(const HParams &hp) {
  ordered_json json{{"n_vocab", hp.n_vocab},
                    {"n_ctx_train", hp.n_ctx_train},
                    {"n_embd", hp.n_embd},
                    {"n_layer", hp.n_layer},
                    {"n_head", hp.n_head},
                    {"n_head_kv", hp.n_head_kv},
                    {"n_embd_head", hp.n_embd_head},
                    {"n_rot", hp.n_rot},
                    {"n_ff", hp.n_ff},
                    {"n_expert", hp.n_expert},
                    {"n_expert_used", hp.n_expert_used},
                    {"norm_rms_eps", readable(hp.norm_rms_eps)},
                    {"n_swa", hp.n_swa},
                    {"n_swa_layers", std::count(hp.swa.begin(), hp.swa.end(), true)},
                    {"rope", rope_json(hp.rope)}};
  if (hp.n_swa > 0) json["rope_swa"] = rope_json(hp.rope_swa);
  return json;
}

ordered_json tensor_types_json(const GgufFile &file) {
  struct Sum {
    size_t n_tensors = 0;
    size_t size_bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const auto &tensor : file.tensors()) {
    Sum &sum = sums[ggml_type_name(tensor.type)];
    sum.n_tensors++;
    sum.size_bytes += tensor.data.size();
  }
  ordered_json json = ordered_json::array();
  for (const auto &[type, sum] : sums) {
    json.push_back({{"type", type}, {"n_tensors", sum.n_tensors}, {"size_bytes", sum.size_bytes}});
  }
  return json;
}

void put_tensor_sums(const GgufFile &file, ordered_json &json) {
  int64_t n_parameters = 0;
  size_t size_bytes = 0;
  for (const auto &tensor : file.tensors()) {
    n_parameters += tensor.ne[0] * tensor.ne[1] * tensor.ne[2] * tensor.ne[3];
    size_bytes += tensor.data.size();
  }
  json["n_parameters"] = n_parameters;
  json["n_tensors"] = file.tensors().size();
  json["tensor_bytes"] = size_bytes;
  json["tensor_types"] = tensor_types_json(file);
}

ordered_json tokenizer_json(const GgufFile &file) {
  const auto model = text_of(file, "tokenizer.ggml.model");
  if (!model) return nullptr;
  const auto pre = text_of(file, "tokenizer.ggml.pre");
  const auto *tokens = file.find_entry("tokenizer.ggml.tokens");
  return {{"model", *model},
          {"pre", pre ? ordered_json(*pre) : ordered_json(nullptr)},
          {"n_vocab", tokens == nullptr ? 0 : tokens->n_items}};
}

ordered_json uses_json(const std::vector<AdaptableUse> &uses) {
  ordered_json json = ordered_json::array();
  for (const auto &use : uses) {
    json.push_back({{"name", use.name}, {"kind", to_string(use.kind)}, {"shape", use.ne}});
  }
  return json;
}

ordered_json adaptable_json(const std::vector<AdaptableUse> &uses, bool with_uses) {
  std::vector<NamedUse> named;
  std::map<std::string_view, size_t> n_by_kind;
  for (const auto &use : uses) {
    named.push_back({use.name, to_string(use.kind)});
    n_by_kind[to_string(use.kind)]++;
  }
  ordered_json json{
      {"n_uses", uses.size()}, {"n_by_kind", n_by_kind}, {"modules", modules_json(named)}};
  if (with_uses) json["uses"] = uses_json(uses);
  return json;
}

/// "packed (avx512_vnni)"
std::string layout_text(const PlannedWeight &weight) {
  const std::string_view layout = to_string(weight.layout);
  return weight.isa ? fmt::format("{} ({})", layout, to_string(*weight.isa)) : std::string(layout);
}

ordered_json layout_json(const WeightPlan &plan) {
  const auto summary = LayoutSummary::of(plan);
  return {{"n_packed", summary.n_packed},
          {"n_interleaved", summary.n_interleaved},
          {"n_as_stored", summary.n_as_stored},
          {"instruction_sets", summary.isas}};
}

/// Layouts of the weights that have their numbers from a tensor: one, or two where a tied head is
/// packed beside the table. Empty: the model cannot be run.
ordered_json layouts_of(const GgufTensor &tensor, const WeightPlan &plan) {
  ordered_json layouts = ordered_json::array();
  for (const auto &weight : plan.weights) {
    if (weight.stored_as == tensor.name) layouts.push_back(layout_text(weight));
  }
  return layouts;
}

ordered_json tensors_json(const GgufFile &file, const WeightPlan &plan) {
  ordered_json json = ordered_json::array();
  for (const auto &tensor : file.tensors()) {
    const std::vector<int64_t> shape(tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims);
    json.push_back({{"name", tensor.name},
                    {"type", ggml_type_name(tensor.type)},
                    {"shape", shape},
                    {"size_bytes", tensor.data.size()},
                    {"layout", layouts_of(tensor, plan)}});
  }
  return json;
}

ordered_json or_null(const std::optional<std::string> &text) {
  return text ? ordered_json(*text) : ordered_json(nullptr);
}

/// What the loader says of a model.
struct Loading {
  std::shared_ptr<const LoadedModel> model;  // null: it cannot be run
  WeightPlan plan;                           // how its weights would lie
  std::optional<std::string> problem;
};

/// The weights stay in the mapping.
Loading try_to_load(const GgufFile &file) try {
  const auto model = load_model(file.path(), WeightOptions::as_stored());
  return {.model = model, .plan = plan_weights(*model)};
} catch (const LoadError &error) {
  return {.problem = error.what()};
}

void put_loaded(const Loading &loading, bool with_uses, ordered_json &json) {
  const auto &[model, plan, problem] = loading;
  json["supported"] = model != nullptr;
  json["problem"] = or_null(problem);
  json["hyper_parameters"] = nullptr;
  json["tied_head"] = nullptr;
  json["adaptable"] = nullptr;
  json["layout"] = nullptr;
  if (model == nullptr) return;
  json["hyper_parameters"] = hparams_json(model->hparams());
  json["tied_head"] = model->info.tied_head;
  json["adaptable"] = adaptable_json(model->info.uses, with_uses);
  json["layout"] = layout_json(plan);
}

}  // namespace

ordered_json model_json(const GgufFile &file, bool with_tensors) {
  size_t size_bytes = 0;
  for (const auto &shard : file.shards()) size_bytes += shard.bytes().size();
  ordered_json json{{"kind", "model"},
                    {"path", file.path()},
                    {"format", "gguf"},
                    {"version", file.version()},
                    {"n_shards", file.shards().size()},
                    {"size_bytes", size_bytes},
                    {"type", or_null(text_of(file, "general.type"))},
                    {"name", or_null(text_of(file, "general.name"))},
                    {"architecture", or_null(text_of(file, "general.architecture"))}};
  const Loading loading = try_to_load(file);
  put_loaded(loading, with_tensors, json);
  put_tensor_sums(file, json);
  json["tokenizer"] = tokenizer_json(file);
  json["metadata"] = metadata_json(file);
  if (with_tensors) json["tensors"] = tensors_json(file, loading.plan);
  return json;
}

}  // namespace patchbay
