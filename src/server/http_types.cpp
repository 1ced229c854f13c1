#include "server/http_types.h"

#include <fmt/format.h>

#include <algorithm>

namespace patchbay {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::optional<unsigned> digit_of(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (lower(c) >= 'a' && lower(c) <= 'f') return static_cast<unsigned>(lower(c) - 'a' + 10);
  return std::nullopt;
}

/// In a query a plus sign is a blank (application/x-www-form-urlencoded).
std::optional<std::string> decode_query_part(std::string_view text) {
  std::string blanks(text);
  std::ranges::replace(blanks, '+', ' ');
  return percent_decode(blanks);
}

}  // namespace

bool equals_ignoring_case(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, {}, lower, lower);
}

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const auto &[key, value] : headers) {
    if (equals_ignoring_case(key, name)) return value;
  }
  return std::nullopt;
}

std::optional<std::string_view> HttpRequest::query_value(std::string_view name) const {
  for (const auto &[key, value] : query) {
    if (key == name) return value;
  }
  return std::nullopt;
}

std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const auto high = digit_of(text[i + 1]);
    const auto low = digit_of(text[i + 2]);
    if (!high || !low) return std::nullopt;
    decoded += static_cast<char>(*high * 16 + *low);
    i += 2;
  }
  return decoded;
}

std::string percent_encode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    if (c > ' ' && c <= '~' && c != '%' && c != ',') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

bool parse_target(std::string_view target, HttpRequest &request) {
  target = target.substr(0, target.find('#'));
  const size_t mark = target.find('?');
  auto path = percent_decode(target.substr(0, mark));
  if (!path || path->empty() || path->front() != '/') return false;
  request.path = std::move(*path);
  request.query.clear();
  if (mark == std::string_view::npos) return true;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const size_t equal = part.find('=');
    auto key = decode_query_part(part.substr(0, equal));
    auto value = decode_query_part(equal == std::string_view::npos ? "" : part.substr(equal + 1));
    if (!key || !value) return false;
    if (!key->empty()) request.query.emplace_back(std::move(*key), std::move(*value));
  }
  return true;
}

std::string_view reason_phrase(unsigned status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Payload Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

}  // namespace patchbay
