#include "lora/base_of_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "lora/peft_names.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

constexpr uint32_t k_max_layers = 1024;
constexpr uint32_t k_max_heads = 4096;

const HfNames &names_of(const GgufFile &file, const std::string &arch) {
  if (const auto *names = find_hf_names(arch)) return *names;
  throw LoadError({.path = file.path(),
                   .item = "general.architecture",
                   .problem = "has no table of Hugging Face names",
                   .found = arch});
}

bool matches(std::string_view target, std::string_view name) {
  return !target.empty() && match_name(target, name).has_value();
}

bool names_target(const HfNames &names, std::string_view name) {
  const auto either = [&](const auto &row) {
    return matches(row.target, name) || matches(row.second_target, name);
  };
  return std::ranges::any_of(names.rows,
                             [&](const NameRow &row) { return matches(row.target, name); }) ||
         std::ranges::any_of(names.fused, either) || std::ranges::any_of(names.splits, either) ||
         std::ranges::any_of(joined_rows(),
                             [&](const JoinedRow &row) { return matches(row.target, name); });
}

AdaptableUse use_of(const GgufTensor &tensor) {
  const bool is_table = tensor.name == "token_embd.weight";
  const bool is_stacked = tensor.n_dims == 3;
  return {.name = tensor.name,
          .kind = is_table     ? UseKind::embed
                  : is_stacked ? UseKind::experts
                               : UseKind::linear,
          .ne = {tensor.ne[0], tensor.ne[1], tensor.ne[2]}};
}

bool names_norm(const HfNames &names, std::string_view name) {
  return std::ranges::any_of(names.vectors,
                             [&](const VectorRow &row) { return matches(row.target, name); });
}

/// Some converters write one number per layer.
uint32_t number_of_heads(const GgufFile &file, const std::string &key, uint32_t fallback) {
  const auto *entry = file.find_entry(key);
  if (entry == nullptr) return fallback;
  if (entry->type != GgufType::array) return file.require_u32(key, k_max_heads);
  const auto numbers = file.get_ints(key).value_or(std::vector<int64_t>{});
  const bool uniform = !numbers.empty() && numbers.front() > 0 && numbers.front() <= k_max_heads &&
                       std::ranges::count(numbers, numbers.front()) == std::ssize(numbers);
  // Layers that differ have no one number of heads; 0 fits no rows that would have to be reordered.
  return uniform ? static_cast<uint32_t>(numbers.front()) : 0;
}

}  // namespace

bool has_joined_weights(const GgufFile &file) {
  return std::ranges::any_of(joined_rows(), [&](const JoinedRow &row) {
    return file.find_tensor(with_layer(row.target, 0)) != nullptr &&
           file.find_tensor(with_layer(row.part_targets.front(), 0)) == nullptr;
  });
}

BaseInfo base_of_gguf(const GgufFile &file) {
  BaseInfo base{.path = file.path(),
                .arch = file.require_string("general.architecture"),
                .name = file.get_string("general.name").value_or("")};
  const HfNames &names = names_of(file, base.arch);
  base.hf_names = &names;
  const auto *table = file.find_tensor("token_embd.weight");
  if (table == nullptr)
    throw LoadError({.path = file.path(), .item = "token_embd.weight", .problem = "is missing"});
  base.hparams.n_embd = static_cast<uint32_t>(table->ne[0]);
  base.hparams.n_vocab = static_cast<uint32_t>(table->ne[1]);
  base.hparams.n_layer = file.require_u32(base.arch + ".block_count", k_max_layers);
  base.hparams.n_head =
      number_of_heads(file, base.arch + ".attention.head_count", base.hparams.n_head);
  base.hparams.n_head_kv =
      number_of_heads(file, base.arch + ".attention.head_count_kv", base.hparams.n_head);
  base.hparams.n_expert = file.get_u32(base.arch + ".expert_count").value_or(0);
  for (const auto &tensor : file.tensors()) {
    if (names_target(names, tensor.name)) base.uses.push_back(use_of(tensor));
    if (names_norm(names, tensor.name))
      base.norms.push_back({.name = tensor.name, .n = tensor.ne[0]});
  }
  base.tied_head = file.find_tensor("output.weight") == nullptr;
  if (base.tied_head) {
    base.uses.push_back({.name = "output.weight", .ne = {table->ne[0], table->ne[1], 1}});
  }
  return base;
}

}  // namespace patchbay
