#pragma once

#include "kernels/isa.h"
#include "kernels/lora_jobs.h"

namespace patchbay {

// Both halves of a low-rank step by the named instruction set, which the processor has. Any thread.

void lora_shrink(Isa isa, const ShrinkJob &job);
void lora_expand(Isa isa, const ExpandJob &job);

}  // namespace patchbay
