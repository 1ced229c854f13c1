#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// llama-server's POST /slots/{id}?action=save|restore|erase. `service` outlives the router.
void add_llama_slot_actions(Router &router, Service &service);

}  // namespace patchbay
