#include "apps/inspect_adapter.h"

#include <algorithm>

#include "apps/inspect_outlook.h"
#include "base/error.h"
#include "lora/adapter.h"
#include "lora/adapter_summary.h"
#include "tools/row_chunks.h"
#include "tools/tensor_rows.h"
#include "tools/weight_norm.h"

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

/// The tensor that has the numbers of a use.
const GgufTensor *tensor_of(const LoadedModel &base, const std::string &use) {
  const auto *tensor = base.file->find_tensor(use);
  return tensor != nullptr ? tensor : base.file->find_tensor("token_embd.weight");
}

Factor expert_of(const Factor &factor, int64_t i_expert) {
  const size_t n_bytes = factor.data.size() / static_cast<size_t>(factor.ne[2]);
  return {.type = factor.type,
          .ne = {factor.ne[0], factor.ne[1], 1},
          .data = factor.data.subspan(static_cast<size_t>(i_expert) * n_bytes, n_bytes),
          .owner = factor.owner};
}

/// How far the pair moves the expert that it moves most; a weight without experts is one.
std::optional<double> largest_change(const FactorPair &pair, const GgufTensor &tensor) {
  std::optional<double> most;
  for (int64_t i = 0; i < pair.b.ne[2]; ++i) {
    FactorPair one = pair;
    one.a = expert_of(pair.a, i);
    one.b = expert_of(pair.b, i);
    const auto norms = pair_norms(one);
    const double weight =
        weight_norm(tensor, {.first = i * tensor.ne[1], .n_rows = tensor.ne[1]}, all_cores());
    if (norms && weight > 0) most = std::max(most.value_or(0), norms->delta / weight);
  }
  return most;
}

/// REQUIRES: the report has the adapter's pairs, in their order.
void add_weight_norms(const LoadedModel &base, const Adapter &adapter, AdapterReport &report) {
  for (size_t i = 0; i < report.pairs.size(); ++i) {
    auto &pair = report.pairs[i];
    const GgufTensor &tensor = *tensor_of(base, pair.target);
    if (!is_readable(tensor.type)) continue;
    const RowChunk all{.first = 0, .n_rows = tensor.ne[1] * tensor.ne[2]};
    pair.norm_weight = weight_norm(tensor, all, all_cores());
    pair.relative_change = largest_change(adapter.pairs[i], tensor);
  }
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
    if (with_norms) add_weight_norms(base, *adapter, report);
    fit["fits"] = true;
    fit["outlook"] = outlook(*adapter, base.info, report.pairs);
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
  if (with_pairs) json["pairs"] = pairs_json(report);
  return json;
}

}  // namespace patchbay
