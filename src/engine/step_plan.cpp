#include "engine/step_plan.h"

#include <cassert>

namespace patchbay {

StepPlan plan_chunk(std::span<const int32_t> tokens, const Chunk &chunk,
                    std::span<const AdapterSpan> spans) {
  assert(!spans.empty() && chunk.first + chunk.n_tokens <= tokens.size());
  StepPlan plan;
  for (const auto &span : spans) plan.sets.push_back(span.set);
  uint32_t i_span = 0;
  for (size_t i = chunk.first; i < chunk.first + chunk.n_tokens; ++i) {
    const auto pos = static_cast<int32_t>(i);
    while (i_span + 1 < spans.size() && spans[i_span + 1].first <= pos) ++i_span;
    const bool is_last = i + 1 == tokens.size();
    plan.rows.push_back({.token = tokens[i],
                         .place = {chunk.seq_id, pos},
                         .i_set = i_span,
                         .wants_logits = chunk.all_logits || is_last});
  }
  return plan;
}

}  // namespace patchbay
