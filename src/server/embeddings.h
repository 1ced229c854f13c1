#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// OpenAI's /v1/embeddings and llama-server's /embedding. `service` outlives the router.
void add_embeddings(Router &router, Service &service);

}  // namespace patchbay
