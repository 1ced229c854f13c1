#include "server/cors.h"

#include <algorithm>

namespace patchbay {
namespace {

/// http or https, this machine by name or address, any port.
bool is_localhost(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!origin.starts_with(scheme)) continue;
    const std::string_view rest = origin.substr(scheme.size());
    for (const std::string_view host : {"localhost", "127.0.0.1", "[::1]"}) {
      if (rest == host || (rest.starts_with(host) && rest[host.size()] == ':')) return true;
    }
  }
  return false;
}

}  // namespace

bool CorsRules::allows(std::string_view origin) const {
  return std::ranges::any_of(origins_, [&](const std::string &one) {
    return one == "*" || one == origin || (one == "localhost" && is_localhost(origin));
  });
}

HttpHeaders CorsRules::headers_for(const HttpRequest &request) const {
  const auto origin = request.header("Origin");
  if (!origin || !allows(*origin)) return {};
  const bool is_anybody = std::ranges::find(origins_, "*") != origins_.end();
  HttpHeaders headers{{"Access-Control-Allow-Origin", is_anybody ? "*" : std::string(*origin)},
                      {"Access-Control-Expose-Headers", "x-adapter-id, x-request-id, retry-after"}};
  if (!is_anybody) headers.emplace_back("Vary", "Origin");
  return headers;
}

std::optional<HttpResponse> CorsRules::preflight(const HttpRequest &request) const {
  const bool asks = request.method == "OPTIONS" && request.header("Access-Control-Request-Method");
  if (!asks || headers_for(request).empty()) return std::nullopt;
  HttpResponse response{.status = 204, .content_type = ""};
  response.headers = {
      {"Access-Control-Allow-Methods", "GET, POST, DELETE"},
      {"Access-Control-Allow-Headers", "authorization, content-type, x-api-key, x-request-id"},
      {"Access-Control-Max-Age", "600"}};
  const auto wanted = request.header("Access-Control-Request-Headers");
  if (wanted) response.headers[1].second = *wanted;
  return response;
}

}  // namespace patchbay
