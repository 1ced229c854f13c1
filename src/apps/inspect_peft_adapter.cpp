#include <fmt/format.h>

#include <map>
#include <tuple>

#include "apps/inspect_adapter.h"
#include "base/error.h"
#include "base/text.h"
#include "gguf/safetensors_file.h"
#include "lora/dotted_path.h"
#include "lora/factor_ops.h"
#include "lora/json_file.h"
#include "lora/peft_config.h"
#include "lora/peft_folder.h"
#include "lora/peft_modules.h"
#include "lora/peft_names.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Halves : PeftHalves {
  bool is_embedding = false;
};

/// By module, nesting of wrappers, name of the adapter.
using HalvesByModule = std::map<std::tuple<std::string, int, std::string>, Halves>;

/// Torch counts from the outermost dimension, ggml from the innermost.
std::vector<int64_t> ggml_dims(const SafeTensor &tensor) {
  return {tensor.shape.rbegin(), tensor.shape.rend()};
}

/// Whether the pair is of a parameter that holds all experts: its factors are those of all experts
/// in one matrix.
bool is_fused(const std::string &module) { return ends_with_components(module, "experts"); }

/// REQUIRES: a float type and two dimensions.
Factor view_of(const SafeTensor &tensor) {
  return {.type = factor_type(tensor.dtype).value_or(GGML_TYPE_F32),
          .ne = {tensor.shape[1], tensor.shape[0], 1},
          .data = tensor.data,
          .owner = nullptr};
}

/// In torch order B A is the change of an embedding as of a linear layer, so both are taken as
/// linear. nullopt for factors that would have to be converted or taken apart, or that do not
/// belong together.
std::optional<PairNorms> norms_of(const std::string &module, const Halves &halves, double scale) {
  const SafeTensor &a = *halves.a;
  const SafeTensor &b = *halves.b;
  const bool matrices = a.shape.size() == 2 && b.shape.size() == 2 && factor_type(a.dtype) &&
                        factor_type(b.dtype) && a.shape[0] == b.shape[1];
  if (!matrices || is_fused(module)) return std::nullopt;
  return pair_norms({.target = module,
                     .kind = UseKind::linear,
                     .n_rank = a.shape[0],
                     .scale = static_cast<float>(scale),
                     .a = view_of(a),
                     .b = view_of(b)});
}

PairReport report_halves(const std::string &module, const Halves &halves, const PeftConfig *config,
                         bool with_norms) {
  PairReport pair{.target = module,
                  .kind = is_fused(module)      ? "experts"
                          : halves.is_embedding ? "embed"
                                                : "linear",
                  .n_rank = std::nullopt,
                  .scale = std::nullopt,
                  .type_a = ascii_lower(halves.a->dtype),
                  .type_b = ascii_lower(halves.b->dtype),
                  .ne_a = ggml_dims(*halves.a),
                  .ne_b = ggml_dims(*halves.b),
                  .size_bytes = halves.a->data.size() + halves.b->data.size(),
                  .norms = std::nullopt};
  if (is_fused(module) || halves.a->shape.empty() || halves.a->shape[0] < 1) return pair;
  pair.n_rank = halves.a->shape[0];
  if (config == nullptr) return pair;
  const double scale = config->scale_of(config->pattern_name(module), *pair.n_rank);
  pair.scale = readable(static_cast<float>(scale));
  if (with_norms) pair.norms = norms_of(module, halves, scale);
  return pair;
}

HalvesByModule sort_tensors(const SafetensorsFile &file, std::vector<std::string> &others) {
  HalvesByModule modules;
  for (const auto &tensor : file.tensors()) {
    const auto key = parse_peft_key(tensor.name);
    const auto half = key ? half_of(key->role) : std::nullopt;
    if (!half) {
      others.push_back(tensor.name);
      continue;
    }
    Halves &halves = modules[{key->module_path, key->n_wrappers, key->adapter_name}];
    (half->is_a ? halves.a : halves.b) = &tensor;
    halves.is_embedding = half->is_embedding;
  }
  return modules;
}

void read_pairs(const SafetensorsFile &file, const PeftConfig *config, bool with_norms,
                AdapterReport &report) {
  std::vector<std::string> others;
  for (const auto &[key, halves] : sort_tensors(file, others)) {
    const std::string &module = std::get<0>(key);
    if (halves.a != nullptr && halves.b != nullptr) {
      report.pairs.push_back(report_halves(module, halves, config, with_norms));
    } else {
      report.problems.push_back(fmt::format("{} is missing one half of its pair, {}", module,
                                            halves.a != nullptr ? "lora_B" : "lora_A"));
    }
  }
  if (report.pairs.empty()) report.problems.emplace_back("holds no LoRA pair at all");
  if (others.empty()) return;
  report.notes.push_back(fmt::format("{} of {} tensors are no half of a pair: {}", others.size(),
                                     file.tensors().size(), first_five(others)));
}

/// The checked config; nullopt, with the reason in the report, where every base would be refused.
std::optional<PeftConfig> read_config(const fs::path &path, AdapterReport &report) {
  try {
    return read_peft_config(path);
  } catch (const LoadError &error) {
    report.problems.emplace_back(error.what());
    return std::nullopt;
  }
}

ordered_json set_options(const JsonFile &json) {
  ordered_json options = ordered_json::object();
  for (const auto &[key, value] : json.root().items()) {
    if (!is_unset(value) || key == "lora_alpha") options[key] = value;
  }
  return options;
}

void report_config(const JsonFile &json, const std::optional<PeftConfig> &config,
                   AdapterReport &report) {
  const auto *alpha = json.find("lora_alpha");
  if (alpha != nullptr) report.alpha = as_number(*alpha);
  const auto *base = json.find("base_model_name_or_path");
  if (base != nullptr && base->is_string()) report.base_name = base->get<std::string>();
  if (!config) return;
  report.invocation_tokens = config->invocation_tokens;
  report.notes = config->notes;
  if (config->n_layer_kept) {
    report.notes.push_back(fmt::format("layer_replication is set: fits a base with {} layers only",
                                       *config->n_layer_kept));
  }
}

}  // namespace

AdapterReport read_peft_report(const fs::path &folder, bool with_norms) {
  const auto json = JsonFile::open(folder / k_peft_config);
  AdapterReport report{.format = "peft",
                       .path = folder.string(),
                       .name = folder_name(folder),
                       .architecture = std::nullopt,
                       .alpha = std::nullopt,
                       .settings = set_options(json)};
  const auto config = read_config(folder / k_peft_config, report);
  report_config(json, config, report);
  const auto file = open_peft_weights(folder);
  try {
    read_pairs(file, config ? &*config : nullptr, with_norms, report);
  } catch (const LoadError &error) {  // a pattern that takes too long to match
    report.problems.emplace_back(error.what());
  }
  return report;
}

}  // namespace patchbay
