#include "jinja/number.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/text.h"
#include "jinja/error.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

constexpr double k_int_bound = 0x1p127;

[[noreturn]] void refuse_wide() {
  throw RenderError(Fault::overflow, "an integer needs more than 128 bits, which is not supported");
}

[[noreturn]] void refuse_zero(const char *what) { throw RenderError(Fault::other, what); }

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

/// The base that a prefix names; 0 without one.
int prefix_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return 0;
  const char c = text[1];
  return c == 'x' || c == 'X' ? 16 : c == 'o' || c == 'O' ? 8 : c == 'b' || c == 'B' ? 2 : 0;
}

/// Digits with single underscores between them.
std::optional<Int> parse_digits(std::string_view text, int base) {
  Int value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_') {
      if (!after_digit) return std::nullopt;
      after_digit = false;
      continue;
    }
    const int digit = digit_value(c);
    if (digit >= base) return std::nullopt;
    value = add(multiply(value, base), digit);
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  return value;
}

bool is_zeros(std::string_view text) {
  return text.find_first_not_of("0_") == std::string_view::npos;
}

/// Takes digits with single underscores from the front of `text` and adds them to `out`.
bool take_digits(std::string_view &text, std::string &out) {
  bool any = false;
  while (!text.empty()) {
    const bool is_separator = any && text[0] == '_' && text.size() > 1 && digit_value(text[1]) < 10;
    if (!is_separator && digit_value(text[0]) >= 10) break;
    if (!is_separator) out += text[0];
    text.remove_prefix(1);
    any = true;
  }
  return any;
}

std::string_view without_sign(std::string_view text) {
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  return has_sign ? text.substr(1) : text;
}

std::optional<double> parse_special(std::string_view text) {
  const bool is_negative = !text.empty() && text[0] == '-';
  const std::string name = ascii_lower(without_sign(text));
  constexpr double k_infinity = std::numeric_limits<double>::infinity();
  if (name == "inf" || name == "infinity") return is_negative ? -k_infinity : k_infinity;
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

/// `text` without underscores when it is what float() takes for a decimal number, else empty.
std::string plain_decimal(std::string_view text) {
  std::string out;
  if (!text.empty() && text[0] == '-') out = "-";
  text = without_sign(text);
  bool any = take_digits(text, out);
  if (!text.empty() && text[0] == '.') {
    out += '.';
    text.remove_prefix(1);
    any = take_digits(text, out) || any;
  }
  if (!any) return {};
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    out += 'e';
    text.remove_prefix(1);
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
      out += text[0];
      text.remove_prefix(1);
    }
    if (!take_digits(text, out)) return {};
  }
  return text.empty() ? out : std::string();
}

Int power_of_int(Int base, Int exponent) {
  Int result = 1;
  while (true) {
    if ((exponent & 1) != 0) result = multiply(result, base);
    exponent >>= 1;
    if (exponent == 0) return result;
    base = multiply(base, base);
  }
}

double power_of_real(double base, double exponent) {
  if (base == 0 && exponent < 0) refuse_zero("0.0 cannot be raised to a negative power");
  const bool is_complex = base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
                          std::trunc(exponent) != exponent;
  if (is_complex) value_error("complex numbers are not supported");
  const double result = std::pow(base, exponent);
  if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
    throw RenderError(Fault::overflow, "(34, 'Numerical result out of range')");
  }
  return result;
}

double as_double(const Value &value) {
  return value.as_real() != nullptr ? *value.as_real() : static_cast<double>(*value.as_integer());
}

}  // namespace

std::string print_int(Int value) { return fmt::format("{}", value); }

std::string print_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer{};
  const auto done = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                  std::chars_format::scientific);
  const std::string_view text(buffer.data(), static_cast<size_t>(done.ptr - buffer.data()));
  const size_t e = text.find('e');
  int exponent = 0;
  // from_chars takes no plus sign.
  const char *exponent_text = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_text, text.data() + text.size(), exponent);

  const std::string sign = text[0] == '-' ? "-" : "";
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const auto n_digits = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    const std::string fraction = n_digits > 1 ? "." + digits.substr(1) : "";
    return fmt::format("{}{}{}e{}{:02}", sign, digits[0], fraction, exponent < 0 ? '-' : '+',
                       std::abs(exponent));
  }
  if (exponent < 0) {
    return sign + "0." + std::string(static_cast<size_t>(-exponent - 1), '0') + digits;
  }
  if (n_digits <= exponent + 1) {
    const auto n_zeros = static_cast<size_t>(exponent) + 1 - static_cast<size_t>(n_digits);
    return sign + digits + std::string(n_zeros, '0') + ".0";
  }
  return sign + digits.insert(static_cast<size_t>(exponent) + 1, ".");
}

std::optional<Int> parse_int(std::string_view text, int base) {
  text = strip(text);
  const bool is_negative = !text.empty() && text[0] == '-';
  text = without_sign(text);
  const int named = prefix_base(text);
  if (base == 0 && named == 0) {
    // "010" could be meant as octal, so it is refused.
    if (!text.empty() && text[0] == '0' && !is_zeros(text)) return std::nullopt;
    base = 10;
  } else if (named != 0 && (base == 0 || base == named)) {
    base = named;
    text.remove_prefix(2);
    if (!text.empty() && text[0] == '_') text.remove_prefix(1);
  }
  const auto value = parse_digits(text, base);
  if (!value) return std::nullopt;
  return is_negative ? -*value : *value;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text);
  if (const auto special = parse_special(text)) return special;
  const std::string plain = plain_decimal(text);
  if (plain.empty()) return std::nullopt;
  double value = 0;
  const auto done = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  // Out of range: strtod tells too large from too small, and the locale's comma cannot matter here.
  if (done.ec == std::errc::result_out_of_range) return std::strtod(plain.c_str(), nullptr);
  return value;
}

Int truncate(double value) {
  if (std::isnan(value)) value_error("cannot convert float NaN to integer");
  if (std::isinf(value)) {
    throw RenderError(Fault::overflow, "cannot convert float infinity to integer");
  }
  if (value >= k_int_bound || value < -k_int_bound) refuse_wide();
  return static_cast<Int>(value);
}

double round_real(double value, Int n_digits) {
  if (!std::isfinite(value) || value == 0 || n_digits > 400) return value;
  if (n_digits < -400) return std::copysign(0.0, value);
  const int n = static_cast<int>(n_digits);
  std::string text;
  if (n >= 0) {
    text = fmt::format("{:.{}f}", value, n);
  } else {
    // As many significant digits as stay before the place that is rounded away.
    const int exponent = static_cast<int>(std::floor(std::log10(std::abs(value))));
    const int n_kept = exponent + n;
    if (n_kept < -1) return std::copysign(0.0, value);
    if (n_kept == -1) {
      const double half = 5 * std::pow(10.0, -n - 1);
      return std::copysign(std::abs(value) > half ? 2 * half : 0.0, value);
    }
    text = fmt::format("{:.{}e}", value, n_kept);
  }
  const double rounded = std::strtod(text.c_str(), nullptr);
  if (std::isinf(rounded)) throw RenderError(Fault::overflow, "rounded value too large");
  return rounded;
}

Int round_int(Int value, Int n_digits) {
  if (n_digits >= 0) return value;
  if (n_digits < -38) return 0;
  const Int unit = power_of_int(10, -n_digits);
  const Int below = floor_divide(value, unit);
  const Int rest = modulo(value, unit);
  const bool goes_up = rest * 2 > unit || (rest * 2 == unit && (below & 1) != 0);
  return multiply(below + (goes_up ? 1 : 0), unit);
}

Int add(Int left, Int right) {
  Int result = 0;
  if (__builtin_add_overflow(left, right, &result)) refuse_wide();
  return result;
}

Int subtract(Int left, Int right) {
  Int result = 0;
  if (__builtin_sub_overflow(left, right, &result)) refuse_wide();
  return result;
}

Int multiply(Int left, Int right) {
  Int result = 0;
  if (__builtin_mul_overflow(left, right, &result)) refuse_wide();
  return result;
}

double divide(double left, double right) {
  if (right == 0) refuse_zero("division by zero");
  return left / right;
}

Int floor_divide(Int left, Int right) {
  if (right == 0) refuse_zero("integer division or modulo by zero");
  if (right == -1) return subtract(0, left);  // the lowest number has no counterpart
  const Int quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

Int modulo(Int left, Int right) {
  if (right == 0) refuse_zero("integer modulo by zero");
  if (right == -1) return 0;
  const Int rest = left % right;
  return rest != 0 && (rest < 0) != (right < 0) ? rest + right : rest;
}

double modulo(double left, double right) {
  if (right == 0) refuse_zero("float modulo");
  const double rest = std::fmod(left, right);
  if (rest == 0) return std::copysign(0.0, right);
  return (rest < 0) != (right < 0) ? rest + right : rest;
}

double floor_divide(double left, double right) {
  if (right == 0) refuse_zero("float floor division by zero");
  // From the rest, as Python does it: left / right may have been rounded up to a whole number.
  const double rest = std::fmod(left, right);
  double quotient = (left - rest) / right;
  if (rest != 0 && (rest < 0) != (right < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, left / right);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value power(const Value &left, const Value &right) {
  const auto base = left.as_integer();
  const auto exponent = right.as_integer();
  if (base && exponent && *exponent >= 0) return Value::integer(power_of_int(*base, *exponent));
  return Value::real(power_of_real(as_double(left), as_double(right)));
}

}  // namespace patchbay::jinja
