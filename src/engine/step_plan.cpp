#include "engine/step_plan.h"

#include <algorithm>
#include <cassert>

#include "engine/pooler.h"

namespace patchbay {
namespace {

/// Neighbouring tokens of one chunk that wear the same.
struct Stretch {
  const Chunk *chunk = nullptr;
  const AdapterSet *set = nullptr;
  size_t first = 0;
  size_t end = 0;
};

void append_stretches(const Chunk &chunk, std::vector<Stretch> &stretches) {
  assert(!chunk.spans.empty() && chunk.first + chunk.n_tokens <= chunk.tokens.size());
  const size_t end = chunk.first + chunk.n_tokens;
  for (size_t i = 0; i < chunk.spans.size(); ++i) {
    const auto span_first = static_cast<size_t>(chunk.spans[i].first);
    const bool is_last = i + 1 == chunk.spans.size();
    const size_t span_end = is_last ? end : static_cast<size_t>(chunk.spans[i + 1].first);
    const Stretch stretch{&chunk, &chunk.spans[i].set, std::max(span_first, chunk.first),
                          std::min(span_end, end)};
    if (stretch.first < stretch.end) stretches.push_back(stretch);
  }
}

/// Any total order would do; in this one the empty set is first.
bool before(const AdapterSet &one, const AdapterSet &other) {
  return std::ranges::lexicographical_compare(one, other, [](const Worn &a, const Worn &b) {
    return a.i_adapter != b.i_adapter ? a.i_adapter < b.i_adapter : a.strength < b.strength;
  });
}

void append_rows(const Stretch &stretch, StepPlan &plan) {
  const Chunk &chunk = *stretch.chunk;
  const size_t n_tokens = chunk.tokens.size();
  for (size_t i = stretch.first; i < stretch.end; ++i) {
    plan.rows.push_back(
        {.token = chunk.tokens[i],
         .place = {chunk.seq_id, static_cast<int32_t>(i)},
         .i_set = static_cast<uint32_t>(plan.sets.size() - 1),
         .wants_logits = !chunk.pooling && (chunk.all_logits || i + 1 == n_tokens),
         .wants_hidden = chunk.pooling && pooling_reads(*chunk.pooling, i, n_tokens)});
  }
}

}  // namespace

StepPlan plan_step(std::span<const Chunk> chunks) {
  std::vector<Stretch> stretches;
  for (const auto &chunk : chunks) append_stretches(chunk, stretches);
  std::ranges::stable_sort(stretches, [](const Stretch &one, const Stretch &other) {
    return before(*one.set, *other.set);
  });
  StepPlan plan;
  for (const auto &stretch : stretches) {
    if (plan.sets.empty() || plan.sets.back() != *stretch.set) plan.sets.push_back(*stretch.set);
    append_rows(stretch, plan);
  }
  return plan;
}

}  // namespace patchbay
