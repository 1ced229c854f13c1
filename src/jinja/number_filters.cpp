#include <array>
#include <cmath>

#include "jinja/error.h"
#include "jinja/filters.h"
#include "jinja/number.h"
#include "jinja/operators.h"

namespace patchbay::jinja {

namespace {

Value absolute(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"abs", {}});
  if (const double *real = self.as_real()) return Value::real(std::abs(*real));
  if (const auto integer = self.as_integer()) {
    return Value::integer(*integer < 0 ? subtract(0, *integer) : *integer);
  }
  type_error("bad operand type for abs(): " + quoted_type(self));
}

/// float(value); nullopt where Python raises TypeError or ValueError.
std::optional<double> read_real(const Value &value) {
  refuse_undefined(value);
  if (const double *real = value.as_real()) return *real;
  if (const auto integer = value.as_integer()) return static_cast<double>(*integer);
  if (const std::string *text = value.as_string()) return parse_real(*text);
  return std::nullopt;
}

Value to_real(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"float", {"default"}});
  runtime.read(self);
  if (const auto number = read_real(self)) return Value::real(*number);
  return bound.find(0) == nullptr ? Value::real(0) : bound.at(0);
}

/// int(value, base); nullopt where Python raises TypeError or ValueError.
std::optional<Int> read_int(const Value &value, Int base) {
  if (const auto integer = value.as_integer()) return integer;
  if (const double *real = value.as_real(); real != nullptr && !std::isnan(*real)) {
    return truncate(*real);
  }
  const bool is_base = base == 0 || (base >= 2 && base <= 36);
  if (!value.is_string() || !is_base) return std::nullopt;
  return parse_int(*value.as_string(), static_cast<int>(base));
}

/// "42.23" gives 42, by way of a float.
std::optional<Int> read_int_of_real(const Value &value) {
  const auto number = read_real(value);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  return truncate(*number);
}

Value to_int(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"int", {"default", "base"}});
  runtime.read(self);
  refuse_undefined(self);
  if (const auto integer = read_int(self, bound.integer(1, 10))) return Value::integer(*integer);
  if (const auto integer = read_int_of_real(self)) return Value::integer(*integer);
  return bound.find(0) == nullptr ? Value::integer(0) : bound.at(0);
}

/// Up or down at a decimal place, by way of multiplying as jinja2 does it.
Value round_to_side(const Value &self, Int precision, bool goes_up) {
  const Value factor = apply(BinaryOp::power, Value::integer(10), Value::integer(precision));
  const Value scaled = apply(BinaryOp::multiply, self, factor);
  const double *real = scaled.as_real();
  const Int whole = real == nullptr ? *scaled.as_integer()
                                    : truncate(goes_up ? std::ceil(*real) : std::floor(*real));
  return apply(BinaryOp::divide, Value::integer(whole), factor);
}

Value round_number(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"round", {"precision", "method"}});
  const std::string method = bound.find(1) == nullptr ? "common" : bound.text(1);
  if (method != "common" && method != "ceil" && method != "floor") {
    throw RenderError(Fault::other, "method must be common, ceil or floor");
  }
  const Int precision = bound.integer(0, 0);
  const bool is_number = self.as_real() != nullptr || self.as_integer();
  if (!is_number) {
    refuse_undefined(self);
    type_error("type " + std::string(self.type_name()) + " doesn't define __round__ method");
  }
  if (method != "common") return round_to_side(self, precision, method == "ceil");
  if (const double *real = self.as_real()) return Value::real(round_real(*real, precision));
  return Value::integer(round_int(*self.as_integer(), precision));
}

constexpr std::array<NamedFilter, 4> k_filters{
    {{"abs", absolute}, {"float", to_real}, {"int", to_int}, {"round", round_number}}};

}  // namespace

std::span<const NamedFilter> number_filters() { return k_filters; }

}  // namespace patchbay::jinja
