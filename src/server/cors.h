#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/http_types.h"

namespace patchbay {

/// Which web pages may ask the server from a browser (https://fetch.spec.whatwg.org, section "CORS
/// protocol"). None of them unless they are listed; keys travel in headers, never as cookies.
class CorsRules {
 public:
  /// `origins`: as "https://host[:port]"; "*": all pages; "localhost": those of this machine.
  explicit CorsRules(std::vector<std::string> origins = {}) : origins_(std::move(origins)) {}

  /// What an answer to this request says; nothing when the page may not read it.
  [[nodiscard]] HttpHeaders headers_for(const HttpRequest &request) const;

  /// The answer to a browser that asks beforehand whether it may ask; nothing for anything else.
  [[nodiscard]] std::optional<HttpResponse> preflight(const HttpRequest &request) const;

 private:
  [[nodiscard]] bool allows(std::string_view origin) const;

  std::vector<std::string> origins_;
};

}  // namespace patchbay
