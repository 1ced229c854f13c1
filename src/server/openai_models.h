#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// GET /v1/models and /v1/models/{id} (OpenAI, with vLLM's fields). `service` outlives the router.
void add_openai_models(Router &router, Service &service);

}  // namespace patchbay
