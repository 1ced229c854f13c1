#include "apps/inspect_outlook.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/inspect_table.h"

namespace patchbay {
namespace {

bool has(const Factor &factor) { return factor.n_elements() > 0; }

std::string reach(const Adapter &adapter, const BaseInfo &base) {
  return fmt::format(
      "it adds low-rank changes to {} of the {} weights that this model's graph reads",
      adapter.pairs.size(), base.uses.size());
}

void add_lengths_and_biases(const Adapter &adapter, std::vector<std::string> &lines) {
  const auto n_dora = std::ranges::count_if(
      adapter.pairs, [](const FactorPair &pair) { return has(pair.magnitude); });
  const auto n_biases =
      std::ranges::count_if(adapter.pairs, [](const FactorPair &pair) { return has(pair.bias); });
  if (n_dora > 0)
    lines.push_back(
        fmt::format("{} of them bring their weight's rows to learnt lengths (DoRA)", n_dora));
  if (n_biases > 0) lines.push_back(fmt::format("{} of them add a bias as well", n_biases));
}

void add_replacements(const Adapter &adapter, std::vector<std::string> &lines) {
  for (const auto &[tensor, value, rows] : adapter.replacements) {
    const std::string what = rows.empty() ? "all of" : count_text(rows.size(), "row") + " of";
    lines.push_back(
        fmt::format("it puts new numbers in place of {} {}", what, terminal_text(tensor)));
  }
}

/// How far the weights move, where that is known.
void add_changes(const std::map<std::string, double> &movements, std::vector<std::string> &lines) {
  std::vector<std::pair<double, std::string_view>> changes;
  for (const auto &[tensor, change] : movements) changes.emplace_back(change, tensor);
  if (changes.empty()) return;
  const auto [least, most] = std::ranges::minmax(changes);
  lines.push_back(
      fmt::format("at strength 1 weights move by {:.2g} % to {:.2g} % of their norm, {} the most",
                  100 * least.first, 100 * most.first, terminal_text(most.second)));
  constexpr double k_large = 1;
  if (most.first > k_large)
    lines.emplace_back(
        "a change larger than its weight is unusual: a wrong base, or a wrong alpha?");
}

}  // namespace

std::vector<std::string> outlook(const Adapter &adapter, const BaseInfo &base,
                                 const std::map<std::string, double> &movements) {
  std::vector<std::string> lines{reach(adapter, base)};
  add_lengths_and_biases(adapter, lines);
  add_replacements(adapter, lines);
  if (!adapter.invocation_tokens.empty())
    lines.emplace_back(
        "it acts from the last occurrence of its invocation tokens in a prompt on, and not at all "
        "without them (aLoRA)");
  if (adapter.cannot_change_output)
    lines.emplace_back("none of that changes anything: its scales or its B are zero");
  add_changes(movements, lines);
  lines.push_back(
      fmt::format("it takes {} of memory while it is worn", bytes_text(adapter.size_bytes)));
  return lines;
}

}  // namespace patchbay
