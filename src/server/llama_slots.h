#pragma once

#include <optional>

#include "server/json_fields.h"
#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// One element of GET /slots; `settings` may be null.
[[nodiscard]] Json slot_json(size_t id, uint32_t n_ctx, Json settings);

/// llama-server's GET /slots: as many slots as answers may be in the making. `service` outlives the
/// router.
void add_llama_slots(Router &router, Service &service);

}  // namespace patchbay
