#pragma once

#include <span>

#include "lora/routing.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// Counts a step whose tokens wear these sets, each there once; the empty one is the base and no
/// set.
void count_sets(StepSets &counts, std::span<const AdapterSet> sets);

}  // namespace patchbay
