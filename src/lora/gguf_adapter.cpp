#include "lora/gguf_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "gguf/gguf_file.h"
#include "lora/adaptable.h"
#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"
#include "lora/gguf_extras.h"
#include "lora/gguf_factors.h"
#include "lora/gguf_halves.h"
#include "lora/invocation_tokens.h"
#include "lora/replacements.h"

namespace patchbay {
namespace {

using HalvesByTarget = std::map<std::string, GgufHalves, std::less<>>;

void expect_string(const GgufFile &file, const char *key, std::string_view wanted,
                   const char *problem, const char *hint) {
  const auto found = file.get_string(key);
  if (found == wanted) return;
  throw LoadError({.path = file.path(),
                   .item = key,
                   .problem = problem,
                   .wanted = fmt::format("'{}'", wanted),
                   .found = found ? fmt::format("'{}'", *found) : "nothing",
                   .hint = hint});
}

void check_header(const GgufFile &file, const BaseInfo &base) {
  expect_string(file, "general.type", "adapter", "is wrong: expect general.type to be 'adapter'",
                "a base model is given with -m, an adapter with --lora");
  expect_string(file, "general.architecture", base.arch,
                "does not fit: model arch and LoRA arch mismatch", "made for another base model");
  expect_string(file, "adapter.type", "lora", "is wrong: expect adapter.type to be 'lora'", "");
}

double read_alpha(const GgufFile &file) {
  const double alpha = file.get_f64(k_gguf_alpha).value_or(0);
  if (!std::isfinite(alpha)) {
    throw LoadError({.path = file.path(), .item = k_gguf_alpha, .problem = "is not finite"});
  }
  return alpha;
}

std::vector<int32_t> read_invocation_tokens(const GgufFile &file, uint32_t n_vocab) {
  const auto ids = file.get_ints(k_gguf_invocation_tokens).value_or(std::vector<int64_t>{});
  return check_invocation_tokens(file.path(), k_gguf_invocation_tokens, ids, n_vocab);
}

void read_settings(const GgufFile &file, const BaseInfo &base, Adapter &adapter) {
  adapter.alpha = read_alpha(file);
  adapter.invocation_tokens = read_invocation_tokens(file, base.hparams.n_vocab);
  adapter.task_name = file.get_string(k_gguf_task_name).value_or("");
  adapter.prompt_prefix = file.get_string(k_gguf_prompt_prefix).value_or("");
  adapter.base_name = file.get_string(k_gguf_base_name).value_or("");
}

void check_halves(const GgufFile &file, const GgufAdapterTensors &tensors) {
  for (const auto &[target, halves] : tensors.pairs) {
    if (halves.a != nullptr && halves.b != nullptr) continue;
    throw LoadError({.path = file.path(),
                     .item = target,
                     .problem = "is missing one component",
                     .wanted = "lora_a and lora_b",
                     .found = halves.a != nullptr ? "lora_a only" : "lora_b only"});
  }
  if (tensors.pairs.empty() && tensors.others.empty()) {
    throw LoadError({.path = file.path(), .problem = "holds no LoRA pair at all"});
  }
}

void check_targets(const GgufFile &file, const HalvesByTarget &pairs, const BaseInfo &base) {
  std::vector<std::string> strangers;
  for (const auto &[target, halves] : pairs) {
    if (base.find_use(target) == nullptr) strangers.push_back(target);
  }
  if (strangers.empty()) return;
  throw LoadError({.path = file.path(),
                   .item = first_five(strangers),
                   .problem = fmt::format("has no partner: the graph of this {} base ({} layers) "
                                          "reads no such weight",
                                          base.arch, base.hparams.n_layer),
                   .hint = "another base model?"});
}

/// What one half must look like; `i_rank` is where its rank stands.
struct HalfShape {
  std::array<int64_t, 3> ne;  ///< with -1 in place of the rank
  size_t i_rank;

  [[nodiscard]] bool fits(const GgufTensor &tensor) const {
    for (size_t i = 0; i < 3; ++i) {
      if (i != i_rank && tensor.ne[i] != ne[i]) return false;
    }
    return tensor.ne[3] == 1;
  }
  [[nodiscard]] std::string text() const {
    const auto number = [&](size_t i) { return i == i_rank ? "r" : std::to_string(ne[i]); };
    const auto last = ne[2] == 1 ? std::string() : ", " + number(2);
    return fmt::format("[{}, {}{}]", number(0), number(1), last);
  }
};

HalfShape shape_of_a(const AdaptableUse &use) {
  if (use.kind == UseKind::embed) return {.ne = {-1, use.ne[1], 1}, .i_rank = 0};
  return {.ne = {use.ne[0], -1, use.ne[2]}, .i_rank = 1};
}

HalfShape shape_of_b(const AdaptableUse &use) {
  const int64_t n_out = use.kind == UseKind::embed ? use.ne[0] : use.ne[1];
  const int64_t n_expert = use.kind == UseKind::experts ? use.ne[2] : 1;
  return {.ne = {-1, n_out, n_expert}, .i_rank = 0};
}

void check_shapes(const GgufFile &file, const GgufHalves &halves, const AdaptableUse &use) {
  const auto refuse = [&](const GgufTensor &tensor, const char *problem, std::string wanted) {
    throw LoadError({.path = file.path(),
                     .item = tensor.name,
                     .problem = problem,
                     .wanted = std::move(wanted),
                     .found = format_shape(tensor.ne, tensor.n_dims),
                     .hint = "another base model?"});
  };
  const auto want_a = shape_of_a(use);
  const auto want_b = shape_of_b(use);
  const int64_t n_rank = halves.b->ne[0];
  const bool same_rank = halves.a->ne[want_a.i_rank] == n_rank;
  if (!want_a.fits(*halves.a)) {
    refuse(
        *halves.a,
        same_rank ? "has incorrect shape" : "has incorrect shape, lora_a tensor is not transposed",
        want_a.text());
  }
  if (!want_b.fits(*halves.b)) refuse(*halves.b, "has incorrect shape", want_b.text());
  if (!same_rank) {
    refuse(*halves.a, "has another rank than its lora_b: lora_a tensor is not transposed",
           fmt::format("r = {}", n_rank));
  }
}

void check_against(const GgufFile &file, const HalvesByTarget &pairs, const BaseInfo &base) {
  check_targets(file, pairs, base);
  for (const auto &[target, halves] : pairs) {
    const auto &use = *base.find_use(target);
    check_adaptable(file.path(), target, use);
    check_shapes(file, halves, use);
  }
}

float pair_scale(const GgufFile &file, double alpha, int64_t n_rank) {
  const double scale = gguf_scale(alpha, n_rank);
  if (std::abs(scale) > std::numeric_limits<float>::max()) {
    throw LoadError({.path = file.path(), .item = k_gguf_alpha, .problem = "is too large"});
  }
  return static_cast<float>(scale);
}

std::vector<FactorPair> read_pairs(const std::shared_ptr<const GgufFile> &file,
                                   const HalvesByTarget &halves_by_target, const BaseInfo &base,
                                   double alpha) {
  std::vector<FactorPair> pairs;
  for (const auto &[target, halves] : halves_by_target) {
    const int64_t n_rank = halves.b->ne[0];
    pairs.push_back({.target = target,
                     .kind = base.find_use(target)->kind,
                     .n_rank = n_rank,
                     .scale = pair_scale(*file, alpha, n_rank),
                     .a = read_factor(file, *halves.a),
                     .b = read_factor(file, *halves.b)});
  }
  return pairs;
}

}  // namespace

std::shared_ptr<Adapter> load_gguf_adapter(const std::filesystem::path &path, const BaseInfo &base,
                                           const AdapterLoadOptions &options) {
  const auto file = std::make_shared<const GgufFile>(GgufFile::open(path, FileBytes::copied));
  check_header(*file, base);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = path.stem().string();
  adapter->path = path.string();
  adapter->format = AdapterFormat::gguf;
  read_settings(*file, base, *adapter);
  const auto tensors = sort_halves(*file);
  check_extra_names(*file, tensors.others, base);
  check_halves(*file, tensors);
  check_against(*file, tensors.pairs, base);
  adapter->pairs = read_pairs(file, tensors.pairs, base, adapter->alpha);
  read_gguf_extras(file, tensors.others, base, *adapter);
  settle_replacements(options, base, *adapter);
  finish_adapter(*adapter, base);
  note_other_base(*adapter, base);
  return adapter;
}

}  // namespace patchbay
