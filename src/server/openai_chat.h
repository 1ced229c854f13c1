#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /v1/chat/completions (OpenAI's chats), also as /chat/completions, and llama-server's
/// /apply-template. `service` outlives the router.
void add_openai_chat(Router &router, Service &service);

}  // namespace patchbay
