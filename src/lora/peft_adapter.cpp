#include "lora/peft_adapter.h"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gguf/safetensors_file.h"
#include "lora/adapter_summary.h"
#include "lora/dotted_path.h"
#include "lora/peft_config.h"
#include "lora/peft_folder.h"
#include "lora/peft_modules.h"
#include "lora/peft_pairs.h"
#include "lora/peft_replacements.h"
#include "lora/replacements.h"

namespace patchbay {
namespace {

namespace fs = std::filesystem;

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
  std::unordered_set<std::string_view> suffixes;
  for (const auto &module : modules.pairs) {
    for (const auto suffix : dotted_suffixes(module.path)) suffixes.insert(suffix);
  }
  for (const auto &target : config.target_modules) {
    if (suffixes.contains(target)) continue;
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

std::shared_ptr<Adapter> load_peft_adapter(const fs::path &folder, const BaseInfo &base,
                                           const AdapterLoadOptions &options) {
  const auto config = read_peft_config(folder / k_peft_config, options);
  check_layers(config, base);
  auto invocation_tokens = invocation_tokens_for(config, base);
  const auto file = std::make_shared<const SafetensorsFile>(open_peft_weights(folder));
  const auto modules = group_modules(*file, base.hparams.n_vocab);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = folder_name(folder);
  adapter->path = folder.string();
  adapter->format = AdapterFormat::peft;
  adapter->pairs = make_pairs(config, file, modules, base);
  adapter->replacements = make_replacements(config, file, modules, base);
  adapter->alpha = config.alpha;
  adapter->invocation_tokens = std::move(invocation_tokens);
  adapter->base_name = config.base_name;
  adapter->notes = config.notes;
  note_doubts(config, modules, adapter->notes);
  note_left_out(modules, adapter->notes);
  settle_replacements(options, base, *adapter);
  finish_adapter(*adapter, base);
  note_other_base(*adapter, base);
  return adapter;
}

}  // namespace patchbay
