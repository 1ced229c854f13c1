#pragma once

#include "patchbay/engine.hpp"

namespace patchbay {

/// Counts a step of this length in its class.
void count_step(StepTimes &times, double ms);

}  // namespace patchbay
