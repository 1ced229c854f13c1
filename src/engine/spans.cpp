#include "engine/spans.h"

#include <algorithm>
#include <set>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {
namespace {

/// A missing adapter passes for one here; the engine refuses it.
bool is_ordinary(const WornAdapter &worn) {
  return worn.adapter == nullptr || worn.adapter->invocation_tokens.empty();
}

/// First token that wears the adapter, -1: none does.
int32_t start_of(const std::vector<int32_t> &prompt, const WornAdapter &worn) {
  if (worn.strength == 0) return -1;
  return is_ordinary(worn) ? 0 : find_last(prompt, worn.adapter->invocation_tokens);
}

}  // namespace

int32_t find_last(std::span<const int32_t> tokens, std::span<const int32_t> needle) {
  if (needle.empty()) return -1;
  const auto found = std::ranges::find_end(tokens, needle);
  return found.empty() ? -1 : static_cast<int32_t>(found.begin() - tokens.begin());
}

PlannedSpans plan_spans(const std::vector<int32_t> &prompt,
                        const std::vector<WornAdapter> &adapters) {
  PlannedSpans plan;
  std::set<int32_t> starts{0};
  for (const auto &worn : adapters) {
    plan.active_from.push_back(start_of(prompt, worn));
    if (plan.active_from.back() > 0) starts.insert(plan.active_from.back());
  }
  for (const int32_t start : starts) {
    RequestSpan span{.first = start};
    for (size_t i = 0; i < adapters.size(); ++i) {
      const int32_t from = plan.active_from[i];
      if (is_ordinary(adapters[i]) ? from == 0 : from == start)
        span.adapters.push_back(adapters[i]);
    }
    plan.spans.push_back(std::move(span));
  }
  return plan;
}

}  // namespace patchbay
