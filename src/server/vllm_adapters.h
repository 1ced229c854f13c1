#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them. `service` outlives the
/// router.
void add_vllm_adapters(Router &router, Service &service);

}  // namespace patchbay
