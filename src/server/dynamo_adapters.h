#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// GET and POST /v1/loras, DELETE /v1/loras/{name}, as Dynamo has them. `service` outlives the
/// router.
void add_dynamo_adapters(Router &router, Service &service);

}  // namespace patchbay
