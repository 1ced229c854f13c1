#pragma once

#include <cstdint>
#include <vector>

#include "kv/cell_table.h"
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

}  // namespace patchbay
