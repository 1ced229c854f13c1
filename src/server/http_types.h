#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace patchbay {

/// Name and value of each header; names compare without case.
using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// A request as it came, taken apart: nothing of HTTP's wire format is left in it.
struct HttpRequest {
  std::string method;                                      ///< "GET"
  std::string path;                                        ///< without the query, percent-decoded
  std::vector<std::pair<std::string, std::string>> query;  ///< decoded
  HttpHeaders headers;
  std::string body;
  std::string id;  ///< the peer's or ours, for logs and X-Request-Id

  /// The value of the first header of that name, or nothing.
  [[nodiscard]] std::optional<std::string_view> header(std::string_view name) const;
  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const;
};

/// A whole answer.
struct HttpResponse {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json; charset=utf-8";
  HttpHeaders headers;
};

/// "Not Found" for 404.
[[nodiscard]] std::string_view reason_phrase(unsigned status);

/// Percent-decoding (RFC 3986, section 2.1); nothing when a percent sign begins no pair of digits.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);
/// Everything outside printable ASCII, percent signs and commas become %XX.
[[nodiscard]] std::string percent_encode(std::string_view text);

/// Splits "/path?query" and decodes both; false when they cannot be decoded.
[[nodiscard]] bool parse_target(std::string_view target, HttpRequest &request);

[[nodiscard]] bool equals_ignoring_case(std::string_view one, std::string_view other);

}  // namespace patchbay
