#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/spans.h"
#include "kv/seq_pos.h"
#include "lora/routing.h"

namespace patchbay {

/// One token of a step.
struct StepRow {
  int32_t token = 0;
  SeqPos place;
  uint32_t i_set = 0;  ///< into StepPlan::sets
  bool wants_logits = false;
};

/// What one step computes, as a plain value: nothing of it is visible until it has been computed.
struct StepPlan {
  std::vector<StepRow> rows;     ///< a sequence's tokens in order of position
  std::vector<AdapterSet> sets;  ///< canonical
};

/// A part of a sequence that one step computes.
struct Chunk {
  int32_t seq_id = 0;
  size_t first = 0;
  size_t n_tokens = 0;
  bool all_logits = false;  ///< else only those of the sequence's last token, if it is in the chunk
};

/// The step for a chunk of `tokens`, a sequence from position 0 on, each token with the set of the
/// span it lies in.
[[nodiscard]] StepPlan plan_chunk(std::span<const int32_t> tokens, const Chunk &chunk,
                                  std::span<const AdapterSpan> spans);

}  // namespace patchbay
