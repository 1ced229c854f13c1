#include <fmt/format.h>

#include "apps/inspect_adapter.h"
#include "apps/inspect_metadata.h"
#include "apps/inspect_table.h"
#include "base/error.h"
#include "lora/factor_ops.h"
#include "lora/gguf_extras.h"
#include "lora/gguf_halves.h"

namespace patchbay {
namespace {

/// What the name and the shape suggest; only the base's graph knows.
UseKind likely_kind(const std::string &target, const GgufTensor &b) {
  if (target == "token_embd.weight") return UseKind::embed;
  return b.ne[2] > 1 ? UseKind::experts : UseKind::linear;
}

Factor view_of(const GgufTensor &tensor) {
  return {.type = tensor.type,
          .ne = {tensor.ne[0], tensor.ne[1], tensor.ne[2]},
          .data = tensor.data,
          .owner = nullptr};
}

/// nullopt for factors that would have to be converted, or that do not belong together.
std::optional<PairNorms> norms_of(const std::string &target, const GgufHalves &halves,
                                  double scale) {
  const GgufTensor &a = *halves.a;
  const GgufTensor &b = *halves.b;
  const UseKind kind = likely_kind(target, b);
  const bool same_rank = a.ne[kind == UseKind::embed ? 0 : 1] == b.ne[0];
  const bool agree = same_rank && a.ne[2] == b.ne[2] && a.ne[3] == 1 && b.ne[3] == 1;
  if (!agree || !is_factor_type(a.type) || !is_factor_type(b.type)) return std::nullopt;
  return pair_norms({.target = target,
                     .kind = kind,
                     .n_rank = b.ne[0],
                     .scale = static_cast<float>(scale),
                     .a = view_of(a),
                     .b = view_of(b)});
}

std::vector<int64_t> dims(const GgufTensor &tensor) {
  return {tensor.ne.begin(), tensor.ne.begin() + tensor.n_dims};
}

PairReport report_halves(const std::string &target, const GgufHalves &halves, double alpha,
                         bool with_norms) {
  const int64_t n_rank = halves.b->ne[0];
  const double scale = gguf_scale(alpha, n_rank);
  return {.target = target,
          .kind = std::string(to_string(likely_kind(target, *halves.b))),
          .n_rank = n_rank,
          .scale = readable(static_cast<float>(scale)),
          .type_a = ggml_type_name(halves.a->type),
          .type_b = ggml_type_name(halves.b->type),
          .ne_a = dims(*halves.a),
          .ne_b = dims(*halves.b),
          .size_bytes = halves.a->data.size() + halves.b->data.size(),
          .norms = with_norms ? norms_of(target, halves, scale) : std::nullopt};
}

void read_pairs(const GgufFile &file, bool with_norms, AdapterReport &report) {
  const auto sorted = sort_halves(file);
  size_t n_extras = 0;
  for (const auto *tensor : sorted.others) {
    if (is_extra_name(tensor->name)) {
      ++n_extras;
    } else {
      report.problems.push_back(fmt::format("{} is neither lora_a nor lora_b", tensor->name));
    }
  }
  if (n_extras > 0) {
    report.notes.push_back(
        fmt::format("{} say what pairs alone cannot, and keep other programs than Patchbay from "
                    "loading it",
                    count_text(n_extras, "tensor")));
  }
  for (const auto &[target, halves] : sorted.pairs) {
    if (halves.a != nullptr && halves.b != nullptr) {
      report.pairs.push_back(report_halves(target, halves, report.alpha.value_or(0), with_norms));
    } else {
      report.problems.push_back(
          fmt::format("{} is missing one component, {}", target, halves.a ? "lora_b" : "lora_a"));
    }
  }
  if (report.pairs.empty() && n_extras == 0)
    report.problems.emplace_back("holds no LoRA pair at all");
}

/// Numbers of a wrong type are a problem of the adapter, not of looking at it.
void read_numbers(const GgufFile &file, AdapterReport &report) {
  try {
    report.alpha = file.get_f64(k_gguf_alpha);
    report.invocation_tokens =
        file.get_ints(k_gguf_invocation_tokens).value_or(std::vector<int64_t>{});
  } catch (const LoadError &error) {
    report.problems.emplace_back(error.what());
  }
}

}  // namespace

AdapterReport read_gguf_report(const GgufFile &file, bool with_norms) {
  const auto text = [&](const char *key) { return text_of(file, key).value_or(""); };
  AdapterReport report{.format = "gguf",
                       .path = file.path(),
                       .name = text("general.name"),
                       .architecture = text_of(file, "general.architecture"),
                       .task_name = text(k_gguf_task_name),
                       .prompt_prefix = text(k_gguf_prompt_prefix),
                       .base_name = text(k_gguf_base_name),
                       .settings = metadata_json(file)};
  if (report.name.empty()) report.name = std::filesystem::path(file.path()).stem().string();
  if (const auto type = text("adapter.type"); type != "lora") {
    report.problems.push_back(fmt::format("expect adapter.type to be 'lora', found '{}'", type));
  }
  read_numbers(file, report);
  read_pairs(file, with_norms, report);
  return report;
}

}  // namespace patchbay
