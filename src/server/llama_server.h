#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// llama-server's /health, /props, /tokenize and /detokenize. `service` outlives the router.
void add_llama_server(Router &router, Service &service);

}  // namespace patchbay
