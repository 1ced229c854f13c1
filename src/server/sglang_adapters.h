#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// POST /load_lora_adapter and /unload_lora_adapter, as SGLang has them. `service` outlives the
/// router.
void add_sglang_adapters(Router &router, Service &service);

}  // namespace patchbay
