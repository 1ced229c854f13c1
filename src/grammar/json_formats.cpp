#include "grammar/json_formats.h"

#include <limits>

namespace patchbay {
namespace {

/// RFC 3339 full-date, with the days that each month has; no year 0, which many libraries lack.
std::string date() {
  const std::string two_digits = "(\\d[1-9]|[1-9]0)";  // not 00
  const std::string year = "(" + two_digits + "\\d\\d|00" + two_digits + ")";
  const std::string leap_two = "(0[48]|[2468][048]|[13579][26])";
  const std::string leap_year = "(\\d\\d" + leap_two + "|" + leap_two + "00)";
  return "(" + year +
         "-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)"
         "|02-(0[1-9]|1\\d|2[0-8]))|" +
         leap_year + "-02-29)";
}

/// RFC 3339 full-time without leap seconds, whose days it does not know.
std::string time() {
  const std::string minutes = "([01]\\d|2[0-3]):[0-5]\\d";
  return minutes + ":[0-5]\\d(\\.\\d{1,9})?(Z|[+-]" + minutes + ")";
}

std::string ipv4() {
  const std::string byte = "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return byte + "(\\." + byte + "){3}";
}

/// The addresses of RFC 5321 that need no quotes.
std::string email() {
  const std::string atom = "[A-Za-z0-9_+-]{1,20}";
  const std::string label = "[A-Za-z0-9]([A-Za-z0-9-]{0,20}[A-Za-z0-9])?";
  return atom + "(\\." + atom + "){0,2}@" + label + "(\\." + label + "){1,3}";
}

}  // namespace

std::optional<std::string> format_pattern(std::string_view format) {
  const auto whole = [](const std::string &pattern) { return "^" + pattern + "$"; };
  if (format == "date") return whole(date());
  if (format == "time") return whole(time());
  if (format == "date-time") return whole(date() + "T" + time());
  if (format == "uuid") return "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$";
  if (format == "ipv4") return whole(ipv4());
  if (format == "email") return whole(email());
  return std::nullopt;
}

std::optional<NumberBounds> format_bounds(std::string_view format) {
  const auto between = [](int64_t min, int64_t max) {
    return NumberBounds{.min = to_decimal(min), .max = to_decimal(max)};
  };
  if (format == "int32")
    return between(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  // Integers of more than 18 digits are not written anyway.
  if (format == "int64" || format == "float" || format == "double") return NumberBounds{};
  return std::nullopt;
}

}  // namespace patchbay
