#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/spans.h"
#include "kv/seq_pos.h"
#include "lora/routing.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// One token of a step.
struct StepRow {
  int32_t token = 0;
  SeqPos place;
  uint32_t i_set = 0;  ///< into StepPlan::sets
  bool wants_logits = false;
  bool wants_hidden = false;  ///< its hidden state after the final norm; not both
};

/// What one step computes, as a plain value: nothing of it is visible until it has been computed.
struct StepPlan {
  std::vector<StepRow> rows;     ///< ordered so that rows that wear the same are neighbours
  std::vector<AdapterSet> sets;  ///< canonical, each once
};

/// A part of a sequence that one step computes.
struct Chunk {
  int32_t seq_id = 0;
  std::span<const int32_t> tokens;     ///< all known ones, from position 0 on
  std::span<const AdapterSpan> spans;  ///< at least one
  size_t first = 0;
  size_t n_tokens = 0;
  bool all_logits = false;  ///< else only those of the sequence's last token, if it is in the chunk
  std::optional<Pooling> pooling{};  ///< hidden states that this reads, and no logits
};

/// The step for some chunks: each token with the set of the span it lies in, rows of the base
/// first, the rows of a sequence that wear the same in order of position.
[[nodiscard]] StepPlan plan_step(std::span<const Chunk> chunks);

}  // namespace patchbay
