#include "lora/peft_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "lora/peft_names.h"

namespace patchbay {
namespace {

constexpr const char *k_hint_shards =
    "saved from a sharded model? gather the weights of ZeRO-3 or FSDP before saving";

/// What a file has for one module.
struct Slots {
  PeftHalves linear;
  PeftHalves embedding;
  const SafeTensor *magnitude = nullptr;
  const SafeTensor *bias = nullptr;
};

/// The tensors of a file by role.
struct Sorted {
  std::map<std::pair<std::string, int>, Slots> slots;  // by path and nesting
  std::map<std::string, const SafeTensor *> base_weights;
  std::set<std::string> copied_modules;
  std::vector<PeftReplacement> replacements;
  std::map<PeftRole, std::vector<std::string>> unsupported;
  std::vector<std::string> vision_or_audio;
  std::set<std::string> adapter_names;
  size_t n_base_copies = 0;
  size_t n_training_buffers = 0;
};

[[noreturn]] void refuse(const SafetensorsFile &file, std::string item, std::string problem,
                         std::string hint = {}) {
  throw LoadError({.path = file.path(),
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .hint = std::move(hint)});
}

PeftKey parse_key(const SafetensorsFile &file, const std::string &name) {
  if (auto key = parse_peft_key(name)) return *std::move(key);
  const bool is_foreign = name.find(".lora_a") != std::string::npos ||
                          name.find(".lora_b") != std::string::npos ||
                          name.find(".lora_down") != std::string::npos ||
                          name.find(".lora_up") != std::string::npos || name.ends_with(".alpha");
  refuse(file, name, "is not understood",
         is_foreign ? "names of MLX or diffusion tools, which scale differently; not guessed at"
                    : "a tensor that no rule for PEFT files claims");
}

/// Where a part of a module's pair belongs; nullptr when the role is none.
const SafeTensor **slot_of(Slots &slots, PeftRole role) {
  if (const auto half = half_of(role)) {
    PeftHalves &halves = half->is_embedding ? slots.embedding : slots.linear;
    return half->is_a ? &halves.a : &halves.b;
  }
  if (role == PeftRole::magnitude) return &slots.magnitude;
  return role == PeftRole::lora_bias ? &slots.bias : nullptr;
}

bool is_part_of_pair(PeftRole role) {
  Slots any;
  return slot_of(any, role) != nullptr;
}

void put_part(const SafetensorsFile &file, const PeftKey &key, const SafeTensor &tensor,
              Sorted &sorted) {
  const SafeTensor *&slot = *slot_of(sorted.slots[{key.module_path, key.n_wrappers}], key.role);
  if (slot != nullptr) {
    refuse(file, tensor.name, fmt::format("is there twice, also as {}", slot->name));
  }
  slot = &tensor;
}

void put_replacement(const SafetensorsFile &file, const PeftKey &key, const SafeTensor &tensor,
                     Sorted &sorted) {
  PeftReplacement made{.path = key.module_path,
                       .is_bias = tensor.name.ends_with(".bias"),
                       .is_rows = key.role == PeftRole::token_rows,
                       .tensor = &tensor};
  for (const auto &other : sorted.replacements) {
    const bool same = other.path == made.path && other.is_bias == made.is_bias;
    if (same)
      refuse(file, tensor.name, fmt::format("is there twice, also as {}", other.tensor->name));
  }
  sorted.replacements.push_back(std::move(made));
}

void put_copy(const PeftKey &key, const SafeTensor &tensor, Sorted &sorted) {
  sorted.n_base_copies++;
  sorted.copied_modules.insert(key.module_path);
  if (tensor.name.ends_with(".base_layer.weight")) sorted.base_weights[key.module_path] = &tensor;
}

void put(const SafetensorsFile &file, const SafeTensor &tensor, Sorted &sorted) {
  const PeftKey key = parse_key(file, tensor.name);
  if (!key.adapter_name.empty()) sorted.adapter_names.insert(key.adapter_name);
  if (is_vision_or_audio(key.module_path)) {
    sorted.vision_or_audio.push_back(tensor.name);
    return;
  }
  if (is_part_of_pair(key.role)) return put_part(file, key, tensor, sorted);
  switch (key.role) {
    case PeftRole::base_copy:
      return put_copy(key, tensor, sorted);
    case PeftRole::training_buffer:
      sorted.n_training_buffers++;
      return;
    case PeftRole::base_bias:
    case PeftRole::token_rows:
    case PeftRole::whole_tensor:
      return put_replacement(file, key, tensor, sorted);
    default:
      sorted.unsupported[key.role].push_back(tensor.name);
  }
}

const char *why_unsupported(PeftRole role) {
  return role == PeftRole::adalora_scale ? "belongs to AdaLoRA, which is not supported "
                                           "(peft.save_as_lora may turn it into LoRA)"
                                         : "belongs to KaSA, which is not supported";
}

/// PEFT saves whole tables when tokens were added before the training.
void check_vocabulary(const SafetensorsFile &file, uint32_t n_vocab) {
  for (const auto &tensor : file.tensors()) {
    const auto key = parse_peft_key(tensor.name);
    if (!key || key->role != PeftRole::whole_tensor || tensor.shape.size() != 2) continue;
    const auto module = bare_module(key->module_path);
    if (module != "embed_tokens" && module != "lm_head") continue;
    if (tensor.shape[0] == static_cast<int64_t>(n_vocab)) continue;
    refuse(file, tensor.name,
           fmt::format("is a table for another vocabulary: vocabulary resized: "
                       "{} against {}",
                       tensor.shape[0], n_vocab));
  }
}

void check_unsupported(const SafetensorsFile &file, const Sorted &sorted) {
  if (!sorted.vision_or_audio.empty()) {
    refuse(file, first_five(sorted.vision_or_audio),
           "belongs to the vision or audio part of a model, and this engine reads text only");
  }
  if (sorted.unsupported.empty()) return;
  const auto &[role, names] = *sorted.unsupported.begin();
  refuse(file, first_five(names), why_unsupported(role));
}

void check_adapter_names(const SafetensorsFile &file, const Sorted &sorted) {
  if (sorted.adapter_names.size() < 2) return;
  refuse(file, "",
         fmt::format("holds several adapters: {}", fmt::join(sorted.adapter_names, ", ")));
}

PeftModule make_pair(const SafetensorsFile &file, const std::string &path, int n_wrappers,
                     const Slots &slots) {
  const bool is_linear = slots.linear.a != nullptr || slots.linear.b != nullptr;
  const bool is_embedding = slots.embedding.a != nullptr || slots.embedding.b != nullptr;
  if (is_linear && is_embedding) {
    refuse(file, path, "has both a linear and an embedding pair");
  }
  const PeftHalves &halves = is_embedding ? slots.embedding : slots.linear;
  PeftModule module{.path = path,
                    .n_wrappers = n_wrappers,
                    .is_embedding = is_embedding,
                    .a = halves.a,
                    .b = halves.b,
                    .magnitude = slots.magnitude,
                    .bias = slots.bias};
  if (module.a == nullptr || module.b == nullptr) {
    const SafeTensor *half = module.a != nullptr ? module.a : module.b;
    throw LoadError(
        {.path = file.path(),
         .item = path,
         .problem = "is missing one half of its pair",
         .wanted = is_embedding ? "lora_embedding_A and lora_embedding_B" : "lora_A and lora_B",
         .found = half != nullptr ? half->name : "neither"});
  }
  if (module.bias != nullptr && is_embedding)
    refuse(file, module.bias->name, "is a bias on an embedding pair, which means nothing in PEFT");
  for (const SafeTensor *half : {module.a, module.b}) {
    if (half->shape.size() == 2 && half->n_elements() > 0) continue;
    refuse(file, half->name,
           fmt::format("has shape [{}], which is no matrix", fmt::join(half->shape, ", ")),
           k_hint_shards);
  }
  return module;
}

void check_copies(const SafetensorsFile &file, const Sorted &sorted) {
  for (const auto &module : sorted.copied_modules) {
    const auto beside = sorted.slots.lower_bound({module, 0});
    if (beside != sorted.slots.end() && beside->first.first == module) continue;
    refuse(file, module + ".base_layer",
           "is a whole tensor without a pair beside it, which is not supported");
  }
}

}  // namespace

PeftModules group_modules(const SafetensorsFile &file, uint32_t n_vocab) {
  Sorted sorted;
  for (const auto &tensor : file.tensors()) put(file, tensor, sorted);
  check_vocabulary(file, n_vocab);
  check_unsupported(file, sorted);
  check_adapter_names(file, sorted);
  check_copies(file, sorted);
  if (sorted.slots.empty() && sorted.replacements.empty())
    refuse(file, "", "holds no LoRA pair at all", k_hint_shards);
  PeftModules modules{.replacements = std::move(sorted.replacements),
                      .n_base_copies = sorted.n_base_copies,
                      .n_training_buffers = sorted.n_training_buffers};
  for (const auto &[key, slots] : sorted.slots) {
    auto module = make_pair(file, key.first, key.second, slots);
    const auto copy = sorted.base_weights.find(key.first);
    if (copy != sorted.base_weights.end()) module.base_weight = copy->second;
    modules.pairs.push_back(std::move(module));
  }
  return modules;
}

}  // namespace patchbay
