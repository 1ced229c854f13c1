#include "lora/gguf_extras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "lora/factor_ops.h"
#include "lora/gguf_factors.h"
#include "lora/replacements.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

using File = std::shared_ptr<const GgufFile>;

/// "blk.0.attn_q.weight" and "dora_m" of "blk.0.attn_q.weight.patchbay_dora_m".
struct RoleName {
  std::string target;
  std::string role;
};

constexpr std::string_view k_mark = ".patchbay_";

std::optional<RoleName> split_name(std::string_view name) {
  const size_t at = name.rfind(k_mark);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  return RoleName{std::string(name.substr(0, at)), std::string(name.substr(at + k_mark.size()))};
}

[[noreturn]] void refuse(const GgufFile &file, const GgufTensor &tensor, std::string problem,
                         std::string wanted = {}, std::string found = {}) {
  throw LoadError({.path = file.path(),
                   .item = tensor.name,
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

void check_shape(const GgufFile &file, const GgufTensor &tensor, std::array<int64_t, 4> wanted) {
  if (tensor.ne == wanted) return;
  refuse(file, tensor, "has incorrect shape", format_shape(wanted),
         format_shape(tensor.ne, tensor.n_dims));
}

/// Reads the tensors of one file.
class Reader {
 public:
  Reader(const File &file, const BaseInfo &base, Adapter &adapter)
      : file_(file), base_(base), adapter_(adapter) {}

  void read(const std::vector<const GgufTensor *> &tensors) {
    for (const auto *tensor : tensors) read_one(*tensor);
    for (auto &[target, rows] : rows_) finish_rows(target, rows);
  }

 private:
  struct Rows {
    const GgufTensor *values = nullptr;
    const GgufTensor *ids = nullptr;
  };

  void read_one(const GgufTensor &tensor) {
    const auto name = split_name(tensor.name);
    if (!name) return read_whole(tensor, tensor.name, false);
    const auto &[target, role] = *name;
    if (role == "dora_m") return read_magnitude(tensor, target);
    if (role == "lora_bias") return read_lora_bias(tensor, target);
    if (role == "bias") return read_whole(tensor, bias_name(tensor, target), false);
    if (role == "norm") return read_whole(tensor, target, false);
    if (role == "weight") return read_whole(tensor, target, true);
    (role == "rows" ? rows_[target].values : rows_[target].ids) = &tensor;
  }

  [[nodiscard]] FactorPair &pair_of(const GgufTensor &tensor, const std::string &target) const {
    const auto found = std::ranges::find(adapter_.pairs, target, &FactorPair::target);
    if (found == adapter_.pairs.end())
      refuse(*file_, tensor, "is missing one component: the pair that it belongs to");
    return *found;
  }

  void read_magnitude(const GgufTensor &tensor, const std::string &target) const {
    FactorPair &pair = pair_of(tensor, target);
    check_shape(*file_, tensor, {pair.b.ne[1], pair.b.ne[2], 1, 1});
    pair.magnitude = scaled_f32(read_factor(file_, tensor), 1);
  }

  void read_lora_bias(const GgufTensor &tensor, const std::string &target) const {
    FactorPair &pair = pair_of(tensor, target);
    if (pair.kind != UseKind::linear) refuse(*file_, tensor, "belongs to no linear weight");
    check_shape(*file_, tensor, {pair.b.ne[1], 1, 1, 1});
    pair.bias = scaled_f32(read_factor(file_, tensor), 1);
  }

  [[nodiscard]] std::string bias_name(const GgufTensor &tensor, const std::string &target) const {
    if (!target.ends_with(k_weight_suffix)) refuse(*file_, tensor, "is named after no weight");
    return bias_of(target);
  }

  [[nodiscard]] ReplacedTensor replaced(const GgufTensor &tensor, const std::string &name) const {
    if (const auto found = find_replaced(file_->path(), base_, name)) return *found;
    refuse(*file_, tensor,
           fmt::format("has no partner: the graph of this {} base reads no {}", base_.arch, name));
  }

  void read_whole(const GgufTensor &tensor, const std::string &name, bool is_matrix) const {
    const auto found = replaced(tensor, name);
    if (found.is_matrix != is_matrix)
      refuse(*file_, tensor, "has a role that does not fit", is_matrix ? "a matrix" : "a vector");
    check_shape(*file_, tensor, {found.ne[0], found.ne[1], found.ne[2], 1});
    adapter_.replacements.push_back({.tensor = name, .value = read_factor(file_, tensor)});
  }

  void finish_rows(const std::string &target, const Rows &rows) const {
    const GgufTensor &any = rows.values != nullptr ? *rows.values : *rows.ids;
    if (rows.values == nullptr || rows.ids == nullptr)
      refuse(*file_, any, "is missing one component", "patchbay_rows and patchbay_row_ids");
    const auto found = replaced(any, target);
    if (target != "token_embd.weight" && target != "output.weight")
      refuse(*file_, any, "holds rows of what is no table of tokens");
    const int64_t n_rows = rows.ids->ne[0];
    check_shape(*file_, *rows.ids, {n_rows, 1, 1, 1});
    check_shape(*file_, *rows.values, {found.ne[0], n_rows, 1, 1});
    adapter_.replacements.push_back({.tensor = target,
                                     .value = read_factor(file_, *rows.values),
                                     .rows = read_ids(*rows.ids, found.ne[1])});
  }

  [[nodiscard]] std::vector<int32_t> read_ids(const GgufTensor &tensor, int64_t n_vocab) const {
    if (tensor.type != GGML_TYPE_I32) refuse(*file_, tensor, "has a wrong type", "I32");
    std::vector<int32_t> ids(static_cast<size_t>(tensor.ne[0]));
    std::memcpy(ids.data(), tensor.data.data(), tensor.data.size());
    const bool ascends = std::ranges::adjacent_find(ids, std::ranges::greater_equal{}) == ids.end();
    if (ids.empty() || !ascends || ids.front() < 0 || ids.back() >= n_vocab)
      refuse(*file_, tensor, "are no tokens", fmt::format("ascending numbers below {}", n_vocab));
    return ids;
  }

  const File &file_;
  const BaseInfo &base_;
  Adapter &adapter_;
  std::map<std::string, Rows> rows_;  // by table
};

}  // namespace

bool is_extra_name(std::string_view tensor) {
  constexpr std::string_view k_roles[] = {"dora_m", "lora_bias", "bias",  "norm",
                                          "rows",   "row_ids",   "weight"};
  const auto name = split_name(tensor);
  return name && std::ranges::find(k_roles, name->role) != std::end(k_roles);
}

void check_extra_names(const GgufFile &file, const std::vector<const GgufTensor *> &tensors,
                       const BaseInfo &base) {
  for (const auto *tensor : tensors) {
    const auto name = split_name(tensor->name);
    if (name && !is_extra_name(tensor->name))
      refuse(file, *tensor, "is a part of an adapter that this version cannot apply");
    // llama.cpp's converter writes norms under their own names, and its loader skips them.
    if (name || base.find_norm(tensor->name) != nullptr) continue;
    throw LoadError({.path = file.path(),
                     .item = tensor->name,
                     .problem = "has unexpected suffix",
                     .hint = "an adapter holds .lora_a and .lora_b tensors, and those that "
                             "Patchbay names .patchbay_*"});
  }
}

void read_gguf_extras(const File &file, const std::vector<const GgufTensor *> &tensors,
                      const BaseInfo &base, Adapter &adapter) {
  Reader(file, base, adapter).read(tensors);
}

}  // namespace patchbay
