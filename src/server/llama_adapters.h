#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// GET and POST /lora-adapters: llama-server's list, and the default set. `service` outlives the
/// router.
void add_llama_adapters(Router &router, Service &service);

}  // namespace patchbay
