#pragma once

#include "patchbay/request.hpp"
#include "server/json_text.h"
#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /completion and /completions, llama-server's own text completion. `service` outlives the
/// router.
/// A request's parameters as llama-server shows them.
[[nodiscard]] Json generation_settings(const Request &request);

void add_llama_completion(Router &router, Service &service);

}  // namespace patchbay
