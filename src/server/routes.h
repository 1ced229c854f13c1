#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// Every route of every dialect. `service` outlives the router.
void add_all_routes(Router &router, Service &service);

}  // namespace patchbay
