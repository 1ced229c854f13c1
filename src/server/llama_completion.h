#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /completion and /completions, llama-server's own text completion. `service` outlives the
/// router.
void add_llama_completion(Router &router, Service &service);

}  // namespace patchbay
