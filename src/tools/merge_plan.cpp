#include "tools/merge_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "arch/decoder.h"
#include "base/error.h"
#include "base/text.h"
#include "tools/tensor_rows.h"

namespace patchbay {
namespace {

constexpr std::string_view k_table = "token_embd.weight";
constexpr std::string_view k_head = "output.weight";
/// Its few numbers choose the experts; converters leave it as it is whatever the model's type.
constexpr std::string_view k_router = "ffn_gate_inp.weight";

[[noreturn]] void refuse(const LoadedModel &base, std::string item, std::string problem,
                         std::string hint = {}) {
  throw LoadError({.path = base.info.path,
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .hint = std::move(hint)});
}

/// Names and shapes that the family's graph can read; all that a merged file may hold.
std::map<std::string, TensorSpec, std::less<>> readable_tensors(const LoadedModel &base) {
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*base.family, base.hparams(), unbound);
  std::map<std::string, TensorSpec, std::less<>> specs;
  for (const auto &spec : table.specs()) specs.emplace(spec.name, spec);
  return specs;
}

/// Makes the plan, step by step.
class Planner {
 public:
  Planner(const LoadedModel &base, TensorChanges changes, std::optional<ggml_type> type)
      : base_(base), type_(type), plan_(std::make_unique<MergePlan>()) {
    plan_->changes = std::move(changes);
    plan_->folding = read_hadamard(*base.file);
  }

  std::unique_ptr<const MergePlan> make() {
    if (plan_->changes.empty()) {
      refuse(base_, "", "would be copied: there is nothing to merge",
             "no adapter, or none with a strength other than 0");
    }
    const auto specs = readable_tensors(base_);
    check_places(specs);
    settle_head();
    for (const auto &tensor : base_.file->tensors()) add(tensor.name, tensor);
    if (head_of_its_own_) add(std::string(k_head), *base_.file->find_tensor(k_table));
    add_new_biases(specs);
    check_types();
    return std::move(plan_);
  }

 private:
  /// Every change needs a tensor that the graph reads if it is there.
  void check_places(const std::map<std::string, TensorSpec, std::less<>> &specs) const {
    std::vector<std::string> strangers;
    for (const auto &[name, change] : plan_->changes) {
      if (!specs.contains(name)) strangers.push_back(name);
    }
    if (strangers.empty()) return;
    refuse(base_, first_five(strangers),
           fmt::format("has no place in a merged model: the graph of this {} base reads no such "
                       "tensor",
                       base_.info.arch),
           "the adapter can only be worn, with --lora");
  }

  /// A tied table that is changed otherwise than its head gets a head beside it.
  void settle_head() {
    if (!base_.info.tied_head) return;
    const auto table = plan_->changes.find(k_table);
    const auto head = plan_->changes.find(k_head);
    const auto end = plan_->changes.end();
    if (table == end && head == end) return;
    if (table != end && head != end && stay_tied(table->second, head->second)) {
      plan_->changes.erase(head);
      return;
    }
    if (folding_of(k_table) != nullptr) {
      refuse(base_, std::string(k_table),
             "is Hadamard-folded and serves as the head too, and only one use of it is changed");
    }
    head_of_its_own_ = true;
    plan_->notes.emplace_back(
        "the table of tokens and the head, one tensor in the base, are two from now on: only one "
        "use of it is changed");
  }

  /// Null for a weight that is not folded.
  [[nodiscard]] const HadamardFolding *folding_of(std::string_view name) const {
    const auto &folding = plan_->folding;
    return folding && folding->folds(name) ? &*folding : nullptr;
  }

  void add(const std::string &name, const GgufTensor &source) {
    const auto change = plan_->changes.find(name);
    plan_->tensors.push_back({.name = name,
                              .type = type_of(name, source),
                              .n_dims = source.n_dims,
                              .ne = source.ne,
                              .source = &source,
                              .change = change == plan_->changes.end() ? nullptr : &change->second,
                              .folding = folding_of(name)});
  }

  ggml_type type_of(const std::string &name, const GgufTensor &source) {
    const bool is_vector = source.ne[1] * source.ne[2] * source.ne[3] == 1;
    if (!type_ || is_vector || name.ends_with(k_router)) return source.type;
    if (source.ne[0] % ggml_blck_size(*type_) == 0) return *type_;
    plan_->notes.push_back(fmt::format("{} becomes f16: its rows of {} are no whole blocks of {}",
                                       name, source.ne[0], ggml_type_name(*type_)));
    return GGML_TYPE_F16;
  }

  void add_new_biases(const std::map<std::string, TensorSpec, std::less<>> &specs) {
    for (const auto &[name, change] : plan_->changes) {
      const bool is_there = std::ranges::any_of(
          plan_->tensors, [&](const MergedTensor &tensor) { return tensor.name == name; });
      if (is_there) continue;
      plan_->tensors.push_back(
          {.name = name, .ne = {specs.at(name).ne[0], 1, 1, 1}, .change = &change});
    }
  }

  void check_types() const {
    for (const auto &tensor : plan_->tensors) {
      if (tensor.is_copy()) continue;
      if (tensor.source != nullptr && !is_readable(tensor.source->type)) {
        refuse(base_, tensor.name,
               fmt::format("has type {}, whose numbers cannot be read",
                           ggml_type_name(tensor.source->type)));
      }
      if (!is_writable(tensor.type)) {
        refuse(base_, tensor.name,
               fmt::format("has type {}, which is made only with an importance matrix",
                           ggml_type_name(tensor.type)),
               "--type q8_0 or f16 makes another one");
      }
    }
  }

  const LoadedModel &base_;
  std::optional<ggml_type> type_;
  std::unique_ptr<MergePlan> plan_;
  bool head_of_its_own_ = false;
};

}  // namespace

std::unique_ptr<const MergePlan> plan_merge(const LoadedModel &base, TensorChanges changes,
                                            std::optional<ggml_type> type) {
  return Planner(base, std::move(changes), type).make();
}

}  // namespace patchbay
