#include "lora/replacements.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>

#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf_file.h"
#include "lora/adaptable.h"
#include "lora/adapter_changes.h"
#include "model/base_tensors.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

/// What quantising gives of a row, as numbers: the row itself for a type of whole precision.
void round_to(ggml_type type, std::vector<float> &row) {
  if (type == GGML_TYPE_F32) return;
  const auto n = static_cast<int64_t>(row.size());
  std::vector<std::byte> stored(ggml_row_size(type, n));
  if (type == GGML_TYPE_F16) {
    ggml_fp32_to_fp16_row(row.data(), reinterpret_cast<ggml_fp16_t *>(stored.data()), n);
  } else if (type == GGML_TYPE_BF16) {
    ggml_fp32_to_bf16_row(row.data(), reinterpret_cast<ggml_bf16_t *>(stored.data()), n);
  } else {
    ggml_quantize_chunk(type, row.data(), stored.data(), 0, 1, n, nullptr);
  }
  ggml_get_type_traits(type)->to_float(stored.data(), row.data(), n);
}

/// Some types are only made with the help of an importance matrix, which nobody has any more.
bool can_round_to(ggml_type type) { return !ggml_quantize_requires_imatrix(type); }

bool equals_base(const Replacement &replacement, const BaseTensors &base) {
  const GgufTensor *tensor = base.find(replacement.tensor);
  if (tensor == nullptr) {  // a bias that the base does not have is zeros
    return replacement.value.ne[1] == 1 &&
           std::ranges::all_of(std::views::iota(int64_t{0}, replacement.value.ne[0]),
                               [&](int64_t i) {
                                 float value = 0;
                                 to_f32(replacement.value, i, {&value, 1});
                                 return value == 0;
                               });
  }
  if (!can_round_to(tensor->type)) return false;
  std::vector<float> row(static_cast<size_t>(tensor->ne[0]));
  std::vector<float> of_base(row.size());
  const int64_t n_rows = replacement.value.n_elements() / tensor->ne[0];
  for (int64_t i = 0; i < n_rows; ++i) {
    to_f32(replacement.value, i * tensor->ne[0], row);
    round_to(tensor->type, row);
    const bool is_all = replacement.rows.empty();
    base.read_rows(*tensor, is_all ? i : replacement.rows[static_cast<size_t>(i)], of_base);
    if (row != of_base) return false;
  }
  return true;
}

bool is_whole_matrix(const Replacement &replacement, const BaseInfo &base) {
  return replacement.rows.empty() && base.find_use(replacement.tensor) != nullptr;
}

std::string in_mib(size_t n_bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(n_bytes) / (1 << 20));
}

void leave_out_equal(const BaseInfo &base, Adapter &adapter) {
  if (base.tensors == nullptr) return;
  std::vector<std::string> names;
  std::erase_if(adapter.replacements, [&](const Replacement &replacement) {
    if (!equals_base(replacement, *base.tensors)) return false;
    names.push_back(replacement.tensor);
    return true;
  });
  if (names.empty()) return;
  adapter.notes.push_back(fmt::format("left out: {} replaced tensors that equal the base's: {}",
                                      names.size(), first_five(names)));
}

void check_matrices(const AdapterLoadOptions &options, const BaseInfo &base,
                    const Adapter &adapter) {
  std::vector<std::string> names;
  size_t n_bytes = 0;
  for (const auto &replacement : adapter.replacements) {
    if (!is_whole_matrix(replacement, base)) continue;
    names.push_back(replacement.tensor);
    n_bytes += static_cast<size_t>(replacement.value.n_elements()) * sizeof(float);
  }
  if (names.empty() || options.allow_full_modules) return;
  throw LoadError(
      {.path = adapter.path,
       .item = first_five(names),
       .problem = fmt::format("replaces whole matrices of the base (option modules_to_save), {} "
                              "as F32",
                              in_mib(n_bytes)),
       .hint =
           "--allow-full-modules serves them, at the memory and time of a base weight for each"});
}

/// A pair means a change of the base's numbers, not of others.
void check_pairs(const BaseInfo &base, const Adapter &adapter) {
  for (const auto &replacement : adapter.replacements) {
    if (base.find_use(replacement.tensor) == nullptr) continue;
    const auto same = [&](const FactorPair &pair) { return pair.target == replacement.tensor; };
    if (std::ranges::none_of(adapter.pairs, same)) continue;
    throw LoadError({.path = adapter.path,
                     .item = replacement.tensor,
                     .problem = "is replaced and adapted by a pair at once, which is not supported",
                     .hint = "merge one of them into the other"});
  }
}

void check_each_once(const Adapter &adapter) {
  std::vector<std::string> names;
  for (const auto &replacement : adapter.replacements) names.push_back(replacement.tensor);
  std::ranges::sort(names);
  const auto twice = std::ranges::adjacent_find(names);
  if (twice == names.end()) return;
  throw LoadError({.path = adapter.path, .item = *twice, .problem = "is replaced twice"});
}

/// What an aLoRA replaces would hold before its invocation too, and nobody says so.
void check_alora(const Adapter &adapter) {
  if (adapter.invocation_tokens.empty() || adapter.replacements.empty()) return;
  throw LoadError({.path = adapter.path,
                   .item = adapter.replacements.front().tensor,
                   .problem = "is replaced by an aLoRA, which is not supported"});
}

}  // namespace

std::optional<ReplacedTensor> find_replaced(const std::string &path, const BaseInfo &base,
                                            const std::string &tensor) {
  if (const auto *norm = base.find_norm(tensor)) return ReplacedTensor{.ne = {norm->n, 1, 1}};
  if (const auto *use = base.find_use(tensor)) {
    check_adaptable(path, tensor, *use);
    return ReplacedTensor{.ne = use->ne, .is_matrix = true, .kind = use->kind};
  }
  const auto *use = base.find_use(weight_of_bias(tensor));
  // The head has no bias in any family's graph.
  if (use == nullptr || use->kind != UseKind::linear || use->name == "output.weight")
    return std::nullopt;
  return ReplacedTensor{.ne = {use->ne[1], 1, 1}};
}

void settle_replacements(const AdapterLoadOptions &options, const BaseInfo &base,
                         Adapter &adapter) {
  check_each_once(adapter);
  leave_out_equal(base, adapter);
  check_matrices(options, base, adapter);
  check_pairs(base, adapter);
  check_alora(adapter);
  if (!adapter.pairs.empty() || !adapter.replacements.empty()) return;
  throw LoadError({.path = adapter.path,
                   .problem = "holds no LoRA pair at all, nor anything else "
                              "that differs from the base"});
}

}  // namespace patchbay
