#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /v1/completions (OpenAI's text completions). `service` outlives the router.
void add_openai_completions(Router &router, Service &service);

}  // namespace patchbay
