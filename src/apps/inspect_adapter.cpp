#include "apps/inspect_adapter.h"

#include <algorithm>
#include <utility>

#include "apps/inspect_outlook.h"
#include "base/cpu_affinity.h"
#include "base/error.h"
#include "lora/adapter.h"
#include "lora/adapter_summary.h"
#include "model/base_tensors.h"
#include "tools/row_chunks.h"
#include "tools/tensor_rows.h"
#include "tools/weight_movement.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;

void take_over(const Adapter &adapter, bool with_norms, AdapterReport &report) {
  report.problems.clear();
  report.notes = adapter.notes;
  for (auto &text : describe_extras(adapter)) report.notes.push_back(std::move(text));
  report.pairs.clear();
  for (const auto &pair : adapter.pairs) report.pairs.push_back(report_pair(pair, with_norms));
}

/// How far each tensor that the adapter changes moves. Tensors that the base lacks, such as new
/// biases, move by no part of what they were.
void add_movements(const LoadedModel &base, std::shared_ptr<const Adapter> adapter,
                   AdapterReport &report) {
  const std::vector<MergedAdapter> alone{{std::move(adapter)}};
  const auto folding = read_hadamard(*base.file);
  for (const auto &[name, change] : tensor_changes(alone)) {
    const GgufTensor *tensor = base.info.tensors->find(name);
    if (tensor == nullptr || !is_readable(tensor->type)) continue;
    const bool is_folded = folding && folding->folds(name);
    const auto movement =
        weight_movement(change, *tensor, is_folded ? &*folding : nullptr, n_allowed_cpus());
    if (movement.relative_change) report.movements.emplace(name, *movement.relative_change);
    for (auto &pair : report.pairs) {
      if (pair.target != name) continue;
      pair.norm_weight = movement.norm_weight;
      pair.relative_change = movement.relative_change;
    }
  }
}

/// [{tensor, relative_change}], sorted by name.
ordered_json movements_json(const AdapterReport &report) {
  ordered_json json = ordered_json::array();
  for (const auto &[tensor, change] : report.movements)
    json.push_back({{"tensor", tensor}, {"relative_change", change}});
  return json;
}

size_t factor_bytes(const AdapterReport &report) {
  size_t size_bytes = 0;
  for (const auto &pair : report.pairs) size_bytes += pair.size_bytes;
  return size_bytes;
}

ordered_json targets_json(const AdapterReport &report) {
  std::vector<NamedUse> uses;
  for (const auto &pair : report.pairs) uses.push_back({pair.target, pair.kind});
  return modules_json(uses);
}

/// The text of the invocation tokens; null where there are none, or no tokenizer that has them.
ordered_json invocation_text(const AdapterReport &report, const LoadedModel *base) {
  if (base == nullptr || base->tokenizer == nullptr || report.invocation_tokens.empty()) {
    return nullptr;
  }
  std::vector<int32_t> tokens;
  for (const int64_t token : report.invocation_tokens) {
    if (token < 0 || token >= base->tokenizer->n_vocab()) return nullptr;
    tokens.push_back(static_cast<int32_t>(token));
  }
  return base->tokenizer->decode(tokens, {.show_control = true, .drop_space_prefix = false});
}

ordered_json pairs_json(const AdapterReport &report) {
  ordered_json json = ordered_json::array();
  for (const auto &pair : report.pairs) json.push_back(pair_json(pair));
  return json;
}

}  // namespace

ordered_json check_fit(const LoadedModel &base, const AdapterLoadOptions &options, bool with_norms,
                       AdapterReport &report) {
  ordered_json fit{{"base", base.info.path},
                   {"base_name", base.info.name},
                   {"fits", false},
                   {"error", nullptr},
                   {"outlook", ordered_json::array()}};
  try {
    const auto adapter = load_adapter(report.path, base.info, {}, options);
    take_over(*adapter, with_norms, report);
    if (with_norms) add_movements(base, adapter, report);
    fit["fits"] = true;
    fit["outlook"] = outlook(*adapter, base.info, report.movements);
  } catch (const LoadError &error) {
    fit["error"] = error.what();
    fit["outlook"] = {"it would be refused, by every command and by the server"};
    std::erase(report.problems, error.what());  // said once is enough
  }
  return fit;
}

ordered_json adapter_json(const AdapterReport &report, ordered_json fit, const LoadedModel *base,
                          bool with_pairs) {
  ordered_json json{{"kind", "adapter"},
                    {"path", report.path},
                    {"format", report.format},
                    {"name", report.name},
                    {"architecture", nullptr},
                    {"alpha", nullptr},
                    {"n_pairs", report.pairs.size()},
                    {"factor_bytes", factor_bytes(report)},
                    {"ranks", ranks_json(report.pairs)},
                    {"scales", scales_json(report.pairs)},
                    {"invocation_tokens", report.invocation_tokens},
                    {"invocation_text", invocation_text(report, base)},
                    {"task_name", report.task_name},
                    {"prompt_prefix", report.prompt_prefix},
                    {"base_name", report.base_name},
                    {"targets", targets_json(report)},
                    {"notes", report.notes},
                    {"problems", report.problems},
                    {report.format == "gguf" ? "metadata" : "config", report.settings},
                    {"fit", std::move(fit)}};
  if (report.architecture) json["architecture"] = *report.architecture;
  if (report.alpha) json["alpha"] = *report.alpha;
  if (with_pairs) {
    json["pairs"] = pairs_json(report);
    json["movements"] = movements_json(report);
  }
  return json;
}

}  // namespace patchbay
