#include "jinja/format_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/number_format.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

// https://docs.python.org/3/library/string.html#format-specification-mini-language
struct Spec {
  std::string fill = " ";
  char align = 0;  // 0: not given
  char sign = 0;
  bool no_negative_zero = false;
  bool alternative = false;
  Int width = 0;
  char grouping = 0;
  std::optional<Int> precision;
  char type = 0;
};

bool is_align(std::string_view text) {
  return !text.empty() && std::string_view("<>=^").find(text[0]) != std::string_view::npos;
}

bool take(std::string_view &text, std::string_view wanted, char *taken = nullptr) {
  if (text.empty() || wanted.find(text[0]) == std::string_view::npos) return false;
  if (taken != nullptr) *taken = text[0];
  text.remove_prefix(1);
  return true;
}

std::optional<Int> take_number(std::string_view &text) {
  std::optional<Int> number;
  while (!text.empty() && text[0] >= '0' && text[0] <= '9') {
    number = number.value_or(0) * 10 + (text[0] - '0');
    check_value_size(static_cast<size_t>(*number));
    text.remove_prefix(1);
  }
  return number;
}

void take_fill_and_align(std::string_view &text, Spec &spec) {
  if (text.empty()) return;
  const size_t fill_size = utf8_size_at(text, 0);
  if (is_align(text.substr(fill_size))) {
    spec.fill = std::string(text.substr(0, fill_size));
    text.remove_prefix(fill_size);
  } else if (!is_align(text)) {
    return;
  }
  spec.align = text[0];
  text.remove_prefix(1);
}

/// `aligns_right`: what the kind of value does by itself.
Spec parse_spec(std::string_view text, const Value &value, bool aligns_right) {
  Spec spec;
  const size_t n_all = text.size();
  take_fill_and_align(text, spec);
  const bool has_fill = n_all - text.size() > 1;
  take(text, "+- ", &spec.sign);
  spec.no_negative_zero = take(text, "z");
  spec.alternative = take(text, "#");
  if (!has_fill && take(text, "0")) {
    spec.fill = "0";
    if (spec.align == 0 && aligns_right) spec.align = '=';
  }
  spec.width = take_number(text).value_or(0);
  take(text, ",_", &spec.grouping);
  if (take(text, ",_")) value_error("Cannot specify both ',' and '_'.");
  if (take(text, ".")) {
    spec.precision = take_number(text);
    if (!spec.precision) value_error("Format specifier missing precision");
  }
  if (text.size() > 1) {
    value_error(fmt::format("Invalid format specifier for object of type {}", quoted_type(value)));
  }
  if (!text.empty()) spec.type = text[0];
  if (spec.align == 0) spec.align = aligns_right ? '>' : '<';
  return spec;
}

[[noreturn]] void refuse_type(const Spec &spec, const Value &value) {
  value_error(
      fmt::format("Unknown format code '{}' for object of type {}", spec.type, quoted_type(value)));
}

/// "1234567" as "1,234,567", with zeros in front until there are `n_wanted` characters.
std::string group_digits(std::string digits, char separator, size_t n_per_group, Int n_wanted) {
  const auto n_written = [&](size_t n) { return Int{n} + Int{(n - 1) / n_per_group}; };
  size_t n = digits.size();
  while (n_written(n) < n_wanted) ++n;
  digits.insert(0, n - digits.size(), '0');
  std::string out;
  for (size_t i = 0; i < n; ++i) {
    if (i > 0 && (n - i) % n_per_group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

/// A number of which `whole` may be grouped, and `rest` follows.
std::string align_number(const Spec &spec, bool is_negative, std::string_view prefix,
                         std::string whole, std::string_view rest, size_t n_per_group) {
  std::string front = is_negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  front += prefix;
  check_value_size(static_cast<size_t>(spec.width));
  const bool fills_inside = spec.align == '=';
  if (spec.grouping != 0) {
    const Int n_wanted = fills_inside && spec.fill == "0"
                             ? spec.width - static_cast<Int>(front.size() + rest.size())
                             : 0;
    whole = group_digits(std::move(whole), spec.grouping, n_per_group, n_wanted);
  }
  const std::string body = whole + std::string(rest);
  if (fills_inside) {
    return front + pad(body, spec.width - static_cast<Int>(front.size()), '>', spec.fill);
  }
  return pad(front + body, spec.width, spec.align, spec.fill);
}

std::string strip_zeros(std::string text) {
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

/// Without a type letter but with a precision: as 'g', but never without a decimal place.
std::string print_general(double value, Int precision) {
  if (!std::isfinite(value)) return print_magnitude(value, 'g', precision, false);
  const Int n_digits = std::max<Int>(precision, 1);
  const std::string text = print_magnitude(value, 'e', n_digits - 1, false);
  const size_t e = text.find('e');
  int exponent = 0;
  const char *begin = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(begin, text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= n_digits - 1) {
    return strip_zeros(text.substr(0, e)) + text.substr(e);
  }
  const std::string plain =
      strip_zeros(print_magnitude(value, 'f', n_digits - 1 - exponent, false));
  return plain.find('.') == std::string::npos ? plain + ".0" : plain;
}

std::string real_digits(const Spec &spec, const Value &value, double number) {
  switch (spec.type) {
    case 0:
      if (!spec.precision) {
        const std::string text = print_real(std::abs(number));
        return text;
      }
      return print_general(number, *spec.precision);
    case 'n':
      return print_magnitude(number, 'g', spec.precision.value_or(6), spec.alternative);
    case '%':
      return print_magnitude(number * 100, 'f', spec.precision.value_or(6), spec.alternative) + "%";
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return print_magnitude(number, spec.type, spec.precision.value_or(6), spec.alternative);
    default:
      refuse_type(spec, value);
  }
}

std::string format_real(const Value &value, double number, const Spec &spec) {
  const std::string digits = real_digits(spec, value, number);
  bool is_negative = std::signbit(number) && !std::isnan(number);
  const bool is_zero = digits.find_first_of("123456789infINF") == std::string::npos;
  if (spec.no_negative_zero && is_zero) is_negative = false;
  const size_t n_whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  return align_number(spec, is_negative, "", digits.substr(0, n_whole),
                      std::string_view(digits).substr(n_whole), 3);
}

std::string format_integer(const Value &value, Int integer, const Spec &spec) {
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  if (std::string_view("eEfFgG%").find(type) != std::string_view::npos) {
    return format_real(value, static_cast<double>(integer), spec);
  }
  if (spec.precision) value_error("Precision not allowed in integer format specifier");
  if (type == 'c') {
    if (spec.sign != 0) value_error("Sign not allowed with integer format specifier 'c'");
    if (integer < 0 || integer > 0x10FFFF || (integer >= 0xD800 && integer < 0xE000)) {
      throw RenderError(Fault::overflow, "%c arg not in range(0x110000)");
    }
    return pad(to_utf8(static_cast<char32_t>(integer)), spec.width,
               spec.align == '=' ? '>' : spec.align, spec.fill);
  }
  if (std::string_view("dboxX").find(type) == std::string_view::npos) refuse_type(spec, value);
  if (spec.grouping == ',' && type != 'd') {
    value_error(fmt::format("Cannot specify ',' with '{}'.", type));
  }
  if (spec.no_negative_zero) {
    value_error("Negative zero coercion (z) not allowed in format specifier with integer");
  }
  const std::string prefix =
      spec.alternative && type != 'd' ? std::string("0") + type : std::string();
  return align_number(spec, integer < 0, prefix, print_digits(integer, type), "",
                      type == 'd' ? 3 : 4);
}

std::string format_text(const Value &value, const Spec &spec) {
  if (spec.sign != 0) value_error("Sign not allowed in string format specifier");
  if (spec.alternative) value_error("Alternate form (#) not allowed in string format specifier");
  if (spec.no_negative_zero) {
    value_error("Negative zero coercion (z) not allowed in string format specifier");
  }
  if (spec.align == '=') value_error("'=' alignment not allowed in string format specifier");
  if (spec.grouping != 0) {
    value_error(fmt::format("Cannot specify '{}' with 's'.", spec.grouping));
  }
  if (spec.type != 0 && spec.type != 's') refuse_type(spec, value);
  const std::string &text = *value.as_string();
  return pad(spec.precision ? first_chars(text, *spec.precision) : text, spec.width, spec.align,
             spec.fill);
}

}  // namespace

std::string format_value(const Value &value, std::string_view spec) {
  if (spec.empty()) return print(value);
  if (value.is_string()) return format_text(value, parse_spec(spec, value, false));
  if (const auto integer = value.as_integer()) {
    return format_integer(value, *integer, parse_spec(spec, value, true));
  }
  if (const double *number = value.as_real()) {
    return format_real(value, *number, parse_spec(spec, value, true));
  }
  type_error(fmt::format("unsupported format string passed to {}.__format__", value.type_name()));
}

}  // namespace patchbay::jinja
