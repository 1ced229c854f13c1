#include "lora/peft_replacements.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "lora/dotted_path.h"
#include "lora/factor_ops.h"
#include "lora/peft_factors.h"
#include "lora/peft_names.h"
#include "lora/peft_shapes.h"
#include "lora/replacements.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

using File = std::shared_ptr<const SafetensorsFile>;

/// Where a tensor belongs, and what making the base did to it.
struct Place {
  std::string tensor;  ///< Replacement::tensor
  RowPlan plan = RowPlan::as_is;
  bool plus_one = false;
};

/// nullopt when the family's table has no such name.
std::optional<Place> find_place(const HfNames &names, const PeftReplacement &replacement) {
  const auto bare = bare_module(replacement.path);
  const auto parameter = bare + (replacement.is_bias ? ".bias" : ".weight");
  for (const auto &row : names.vectors) {
    if (const auto numbers = match_name(row.hf_path, parameter))
      return Place{.tensor = with_layer(row.target, numbers->i_layer), .plus_one = row.plus_one};
  }
  for (const auto &row : names.rows) {
    const auto numbers = match_name(row.hf_path, bare);
    if (!numbers || numbers->i_expert >= 0) continue;
    const auto weight = with_layer(row.target, numbers->i_layer);
    return Place{.tensor = replacement.is_bias ? bias_of(weight) : weight, .plan = row.plan};
  }
  return std::nullopt;
}

Factor plus_one(const Factor &factor) {
  auto values = numbers_of(factor);
  for (float &value : values) value += 1;
  return make_factor(factor.ne, std::move(values));
}

/// Reads what replaces tensors of one base.
class Reader {
 public:
  Reader(const PeftConfig &config, const File &file, const BaseInfo &base)
      : config_(config), file_(file), base_(base) {}

  [[nodiscard]] std::vector<Replacement> read(const PeftModules &modules) {
    for (const auto &replacement : modules.replacements) read_one(replacement);
    if (!strangers_.empty()) {
      throw LoadError({.path = file_->path(),
                       .item = first_five(strangers_),
                       .problem = fmt::format("replaces what the graph of this {} base does not "
                                              "read, or what cannot be replaced",
                                              base_.arch)});
    }
    return std::move(read_);
  }

 private:
  void read_one(const PeftReplacement &replacement) {
    const auto place = find_place(*base_.hf_names, replacement);
    const auto replaced = place ? find_replaced(file_->path(), base_, place->tensor) : std::nullopt;
    if (!replaced) return strangers_.push_back(replacement.tensor->name);
    if (replacement.is_rows) return read_rows(replacement, *replaced);
    check_shape(*replacement.tensor, *replaced);
    Factor value = planned_rows(read_factor(file_, *replacement.tensor), base_, place->plan);
    if (place->plus_one) value = plus_one(value);
    read_.push_back({.tensor = place->tensor, .value = std::move(value)});
  }

  void check_shape(const SafeTensor &tensor, const ReplacedTensor &replaced) const {
    const std::vector<int64_t> wanted = replaced.is_matrix
                                            ? std::vector{replaced.ne[1], replaced.ne[0]}
                                            : std::vector{replaced.ne[0]};
    if (tensor.shape == wanted && replaced.ne[2] == 1) return;
    refuse_shape(tensor, fmt::format("[{}]", fmt::join(wanted, ", ")));
  }

  [[noreturn]] void refuse_shape(const SafeTensor &tensor, std::string wanted) const {
    throw LoadError({.path = file_->path(),
                     .item = tensor.name,
                     .problem = "has incorrect shape",
                     .wanted = std::move(wanted) + " in torch order",
                     .found = format_shape(tensor),
                     .hint = "another base model?"});
  }

  /// PEFT changes both uses of a tied table, and saves one.
  void read_rows(const PeftReplacement &replacement, const ReplacedTensor &replaced) {
    const auto tokens = tokens_of(replacement);
    const SafeTensor &tensor = *replacement.tensor;
    const std::vector<int64_t> wanted{static_cast<int64_t>(tokens.size()), replaced.ne[0]};
    if (tensor.shape != wanted) refuse_shape(tensor, fmt::format("[{}]", fmt::join(wanted, ", ")));
    std::vector<size_t> order(tokens.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return tokens[i]; });
    Replacement made = sorted_rows(read_factor(file_, tensor), tokens, order);
    const bool is_head = replaced.kind == UseKind::linear;
    made.tensor = is_head ? "output.weight" : "token_embd.weight";
    read_.push_back(made);
    if (!base_.tied_head || is_head) return;
    made.tensor = "output.weight";
    read_.push_back(std::move(made));
  }

  [[nodiscard]] std::vector<int64_t> tokens_of(const PeftReplacement &replacement) const {
    const auto refuse = [&](std::string problem) {
      throw LoadError({.path = config_.path,
                       .item = "trainable_token_indices",
                       .problem = std::move(problem),
                       .found = replacement.tensor->name});
    };
    const auto found =
        std::ranges::find_if(config_.trainable_tokens, [&](const TrainableTokens &table) {
          return ends_with_components(replacement.path, table.module);
        });
    if (found == config_.trainable_tokens.end()) {
      refuse("does not say for which tokens the file has rows");
      return {};
    }
    auto sorted = found->tokens;
    std::ranges::sort(sorted);
    if (sorted.empty() || std::ranges::adjacent_find(sorted) != sorted.end())
      refuse("names no token, or one twice");
    if (sorted.back() >= static_cast<int64_t>(base_.hparams.n_vocab))
      refuse(fmt::format("names token {}, and the vocabulary has {}", sorted.back(),
                         base_.hparams.n_vocab));
    return found->tokens;
  }

  [[nodiscard]] static Replacement sorted_rows(const Factor &rows,
                                               const std::vector<int64_t> &tokens,
                                               const std::vector<size_t> &order) {
    Replacement made;
    const auto n = static_cast<size_t>(rows.ne[0]);
    std::vector<float> values(n * tokens.size());
    for (size_t i = 0; i < order.size(); ++i) {
      to_f32(rows, static_cast<int64_t>(order[i] * n), std::span(values).subspan(i * n, n));
      made.rows.push_back(static_cast<int32_t>(tokens[order[i]]));
    }
    made.value = make_factor({rows.ne[0], rows.ne[1], 1}, std::move(values));
    return made;
  }

  const PeftConfig &config_;
  const File &file_;
  const BaseInfo &base_;
  std::vector<Replacement> read_;
  std::vector<std::string> strangers_;
};

}  // namespace

std::vector<Replacement> make_replacements(const PeftConfig &config, const File &file,
                                           const PeftModules &modules, const BaseInfo &base) {
  if (modules.replacements.empty()) return {};
  if (base.hf_names == nullptr) {
    throw LoadError(
        {.path = file->path(),
         .problem = fmt::format("is a PEFT adapter, and architecture {} has no table of PEFT names",
                                base.arch),
         .hint = "convert it to a GGUF adapter"});
  }
  return Reader(config, file, base).read(modules);
}

}  // namespace patchbay
