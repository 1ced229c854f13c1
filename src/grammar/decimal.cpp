#include "grammar/decimal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace patchbay {
namespace {

constexpr int k_most_digits = 40;

Decimal normalised(Decimal number) {
  number.integer.erase(0, number.integer.find_first_not_of('0'));
  if (number.integer.empty()) number.integer = "0";
  while (number.fraction.ends_with('0')) number.fraction.pop_back();
  if (number.is_zero()) number.is_negative = false;
  return number;
}

std::strong_ordering compare_sizes(const Decimal &one, const Decimal &other) {
  if (one.integer.size() != other.integer.size())
    return one.integer.size() <=> other.integer.size();
  // Without trailing zeros, the shorter of two fractions that begin alike is the smaller one.
  const int integers = one.integer.compare(other.integer);
  return (integers != 0 ? integers : one.fraction.compare(other.fraction)) <=> 0;
}

/// The fewest digits that say the value, as d.ddde+xx.
std::string scientific(double value) {
  std::array<char, 64> buffer{};
  char *const end = buffer.data() + buffer.size();
  const auto written = std::to_chars(buffer.data(), end, value, std::chars_format::scientific);
  return {buffer.data(), written.ptr};
}

}  // namespace

Decimal Decimal::negated() const {
  Decimal negated = *this;
  negated.is_negative = !is_negative && !is_zero();
  return negated;
}

std::optional<int64_t> Decimal::as_int64() const {
  if (!is_integer()) return std::nullopt;
  const std::string text = (is_negative ? "-" : "") + integer;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::strong_ordering operator<=>(const Decimal &one, const Decimal &other) {
  if (one.is_negative != other.is_negative)
    return one.is_negative ? std::strong_ordering::less : std::strong_ordering::greater;
  return one.is_negative ? compare_sizes(other, one) : compare_sizes(one, other);
}

Decimal to_decimal(int64_t value) {
  std::string digits = fmt::format("{}", value);
  const bool is_negative = value < 0;
  if (is_negative) digits.erase(0, 1);
  return {.is_negative = is_negative, .integer = std::move(digits)};
}

std::optional<Decimal> to_decimal(const nlohmann::ordered_json &number) {
  Decimal decimal;
  if (number.is_number_unsigned()) {
    decimal.integer = fmt::format("{}", number.get<uint64_t>());
    return decimal;
  }
  if (number.is_number_integer()) return to_decimal(number.get<int64_t>());
  const auto value = number.get<double>();
  if (!std::isfinite(value)) return std::nullopt;
  const std::string text = scientific(std::abs(value));
  const size_t e = text.find('e');
  std::string digits = text.substr(0, e);
  int exponent = 0;
  const char *exponent_begin = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent_begin, text.data() + text.size(), exponent);
  std::erase(digits, '.');
  if (std::abs(exponent) > k_most_digits) return std::nullopt;
  // The point comes after the first digit, moved by the exponent.
  const int point = exponent + 1;
  if (point <= 0) {
    digits.insert(0, static_cast<size_t>(1 - point), '0');
  } else if (static_cast<size_t>(point) > digits.size()) {
    digits.append(static_cast<size_t>(point) - digits.size(), '0');
  }
  const size_t n_integer = static_cast<size_t>(std::max(point, 1));
  decimal.is_negative = value < 0;
  decimal.integer = digits.substr(0, n_integer);
  decimal.fraction = digits.substr(n_integer);
  return normalised(std::move(decimal));
}

}  // namespace patchbay
