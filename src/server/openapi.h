#pragma once

#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// The description (OpenAPI 3.1) of these routes: what the table of route_docs() says of them.
[[nodiscard]] Json openapi_document(const std::vector<Route> &routes);

/// GET /openapi.json, of the routes that `router` has at the time of asking. `router` and `service`
/// outlive it.
void add_openapi(Router &router, Service &service);

}  // namespace patchbay
