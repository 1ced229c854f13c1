#include "jinja/string_literal.h"

#include <fmt/format.h>

#include <charconv>

#include "base/utf8.h"
#include "jinja/error.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

/// The text of a code point written with `n` hexadecimal digits, which are taken from `rest`.
std::string take_hex(std::string_view &rest, size_t n) {
  uint32_t code = 0;
  const std::string_view digits = rest.substr(0, n);
  const auto done = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != n || done.ptr != digits.data() + n) value_error("truncated escape");
  if (code > 0x10FFFF) value_error("illegal Unicode character");
  if (code >= 0xD800 && code < 0xE000) value_error("a surrogate is no character");
  rest.remove_prefix(n);
  return to_utf8(code);
}

std::string take_octal(std::string_view &rest) {
  uint32_t code = 0;
  for (int n = 0; n < 3 && !rest.empty() && rest[0] >= '0' && rest[0] <= '7'; ++n) {
    code = code * 8 + static_cast<uint32_t>(rest[0] - '0');
    rest.remove_prefix(1);
  }
  return to_utf8(code);
}

/// jinja2 writes characters beyond ASCII as escapes before it resolves them, so that a backslash
/// in front of one is doubled into a backslash and the letters of the escape.
std::string take_wide(std::string_view &rest) {
  size_t size = 0;
  const auto code = static_cast<uint32_t>(next_char(rest, size));
  rest.remove_prefix(size);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

/// What an escape stands for, taken from behind its backslash.
std::string take_escape(std::string_view &rest) {
  if (static_cast<uint8_t>(rest[0]) >= 0x80) return take_wide(rest);
  if (rest[0] >= '0' && rest[0] <= '7') return take_octal(rest);
  const char c = rest[0];
  rest.remove_prefix(1);
  switch (c) {
    case '\n':
      return {};
    case '\\':
    case '\'':
    case '"':
      return {c};
    case 'a':
      return "\a";
    case 'b':
      return "\b";
    case 'f':
      return "\f";
    case 'n':
      return "\n";
    case 'r':
      return "\r";
    case 't':
      return "\t";
    case 'v':
      return "\v";
    case 'x':
      return take_hex(rest, 2);
    case 'u':
      return take_hex(rest, 4);
    case 'U':
      return take_hex(rest, 8);
    case 'N':
      value_error("characters by name are not supported");
    default:
      return {'\\', c};
  }
}

}  // namespace

std::string unescape_literal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t n = std::min(text.find('\\'), text.size());
    out += text.substr(0, n);
    text.remove_prefix(n);
    if (text.empty()) break;
    text.remove_prefix(1);
    if (text.empty()) value_error("\\ at end of string");
    out += take_escape(text);
  }
  return out;
}

}  // namespace patchbay::jinja
