#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /generate and /generate_stream, which several servers have: with `inputs` in the dialect of
/// Text Generation Inference and LoRAX, else in SGLang's. `service` outlives the router.
void add_plain_generate(Router &router, Service &service);

}  // namespace patchbay
