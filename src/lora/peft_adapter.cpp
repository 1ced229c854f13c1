#include "lora/peft_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "gguf/safetensors_file.h"
#include "lora/adapter_summary.h"
#include "lora/peft_config.h"
#include "lora/peft_modules.h"
#include "lora/peft_pairs.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<const SafetensorsFile> open_weights(const fs::path &folder) {
  const auto path = folder / "adapter_model.safetensors";
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    const bool has_pickle = fs::exists(folder / "adapter_model.bin", ignored);
    const bool has_mlx = fs::exists(folder / "adapters.safetensors", ignored);
    throw LoadError({.path = folder.string(),
                     .item = "adapter_model.safetensors",
                     .problem = "is missing",
                     .found = has_pickle ? "adapter_model.bin, a pickle file, which is never read"
                              : has_mlx  ? "adapters.safetensors of MLX, which is not supported"
                                         : "",
                     .hint = has_pickle ? k_recipe_for_pickle : "",
                     .code = ErrorCode::not_found});
  }
  return std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
}

std::string folder_name(const fs::path &folder) {
  const auto full = fs::absolute(folder).lexically_normal();
  return (full.has_filename() ? full : full.parent_path()).filename().string();
}

void note_ambiguity(const PatternTable &table, const std::vector<std::string> &modules,
                    std::vector<std::string> &notes) {
  std::string first;
  size_t n_modules = 0;
  for (const auto &module : modules) {
    const auto text = table.ambiguity(module);
    if (text && n_modules++ == 0) first = *text;
  }
  if (n_modules > 1) first += fmt::format(" ({} such modules)", n_modules);
  if (n_modules > 0) notes.push_back(first);
}

/// Patterns that match a module twice, and targets without a pair, as in a file that was cut.
void note_doubts(const PeftConfig &config, const PeftModules &modules,
                 std::vector<std::string> &notes) {
  std::vector<std::string> names;
  for (const auto &module : modules.pairs) names.push_back(config.pattern_name(module.path));
  note_ambiguity(config.rank_pattern, names, notes);
  note_ambiguity(config.alpha_pattern, names, notes);
  for (const auto &target : config.target_modules) {
    const bool found = std::any_of(
        modules.pairs.begin(), modules.pairs.end(),
        [&](const PeftModule &module) { return ends_with_components(module.path, target); });
    if (found) continue;
    notes.push_back(
        fmt::format("target_modules lists '{}', but the file has no pair for it", target));
  }
}

void note_left_out(const PeftModules &modules, std::vector<std::string> &notes) {
  if (modules.n_base_copies > 0) {
    notes.push_back(
        fmt::format("left out: {} tensors that are copies of base weights", modules.n_base_copies));
  }
  if (modules.n_training_buffers > 0) {
    notes.push_back(fmt::format("left out: {} tensors that are of use in training only",
                                modules.n_training_buffers));
  }
}

}  // namespace

std::shared_ptr<const Adapter> load_peft_adapter(const fs::path &folder, const BaseInfo &base) {
  const auto config = read_peft_config(folder / "adapter_config.json", base);
  const auto file = open_weights(folder);
  const auto modules = group_modules(*file, base.hparams.n_vocab);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = folder_name(folder);
  adapter->path = folder.string();
  adapter->format = AdapterFormat::peft;
  adapter->pairs = make_pairs(config, file, modules, base);
  adapter->alpha = config.alpha;
  adapter->invocation_tokens = config.invocation_tokens;
  adapter->base_name = config.base_name;
  adapter->notes = config.notes;
  note_doubts(config, modules, adapter->notes);
  note_left_out(modules, adapter->notes);
  finish_adapter(*adapter, base);
  return adapter;
}

}  // namespace patchbay
