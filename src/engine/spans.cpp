#include "engine/spans.h"

#include <algorithm>
#include <set>

namespace patchbay {

int32_t find_last(std::span<const int32_t> tokens, std::span<const int32_t> needle) {
  if (needle.empty()) return -1;
  const auto found = std::ranges::find_end(tokens, needle);
  return found.empty() ? -1 : static_cast<int32_t>(found.begin() - tokens.begin());
}

SpanPlan plan_spans(std::span<const int32_t> prompt, std::span<const RequestedAdapter> adapters) {
  SpanPlan plan;
  std::set<int32_t> starts{0};
  for (const auto &adapter : adapters) {
    const bool invoked = !adapter.invocation_tokens.empty();
    const int32_t start = adapter.worn.strength == 0 ? -1
                          : invoked                  ? find_last(prompt, adapter.invocation_tokens)
                                                     : 0;
    plan.active_from.push_back(start);
    if (start > 0) starts.insert(start);
  }
  for (const int32_t start : starts) {
    AdapterSpan span{.first = start};
    for (size_t i = 0; i < adapters.size(); ++i) {
      const bool rules = adapters[i].invocation_tokens.empty() ? plan.active_from[i] == 0
                                                               : plan.active_from[i] == start;
      if (rules) span.set.push_back(adapters[i].worn);
    }
    plan.spans.push_back(std::move(span));
  }
  return plan;
}

}  // namespace patchbay
