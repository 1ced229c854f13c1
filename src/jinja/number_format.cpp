#include "jinja/number_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

// More than any number has, and few enough for a buffer.
constexpr Int k_max_precision = 100'000;

const char *c_format(char type, bool alternative) {
  switch (type) {
    case 'e':
      return alternative ? "%#.*e" : "%.*e";
    case 'E':
      return alternative ? "%#.*E" : "%.*E";
    case 'f':
      return alternative ? "%#.*f" : "%.*f";
    case 'F':
      return alternative ? "%#.*F" : "%.*F";
    case 'G':
      return alternative ? "%#.*G" : "%.*G";
    default:
      return alternative ? "%#.*g" : "%.*g";
  }
}

}  // namespace

std::string print_digits(Int value, char type) {
  auto rest = static_cast<UnsignedInt>(value);
  if (value < 0) rest = 0 - rest;
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  const std::string_view digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out += digits[static_cast<size_t>(rest % base)];
    rest /= base;
  } while (rest > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string print_magnitude(double value, char type, Int precision, bool alternative) {
  if (precision > k_max_precision) value_error("precision too big");
  const char *format = c_format(type, alternative);
  const int n = static_cast<int>(precision);
  const double magnitude = std::abs(value);
  const int size = std::snprintf(nullptr, 0, format, n, magnitude);
  std::string out(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(out.data(), out.size(), format, n, magnitude);
  out.pop_back();
  return out;
}

std::string pad(std::string_view text, Int width, char align, std::string_view fill) {
  const auto n = static_cast<Int>(n_chars(text));
  if (width <= n) return std::string(text);
  const Int n_missing = width - n;
  const Int n_left = align == '<' ? 0 : align == '^' ? n_missing / 2 : n_missing;
  check_value_size(static_cast<size_t>(std::min<Int>(width, k_max_value_size + 1)));
  return repeat_text(fill, n_left) + std::string(text) + repeat_text(fill, n_missing - n_left);
}

std::string_view first_chars(std::string_view text, Int n) {
  if (n >= static_cast<Int>(text.size())) return text;
  return text.substr(0, byte_of_char(text, static_cast<size_t>(n)));
}

}  // namespace patchbay::jinja
