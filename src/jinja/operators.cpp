#include "jinja/operators.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/printf.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

std::string_view sign_of(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
      return "+";
    case BinaryOp::subtract:
      return "-";
    case BinaryOp::multiply:
      return "*";
    case BinaryOp::divide:
      return "/";
    case BinaryOp::floor_divide:
      return "//";
    case BinaryOp::modulo:
      return "%";
    case BinaryOp::power:
      return "** or pow()";
  }
  return {};
}

std::optional<double> as_number(const Value &value) {
  if (const double *real = value.as_real()) return *real;
  if (const auto integer = value.as_integer()) return static_cast<double>(*integer);
  return std::nullopt;
}

Value apply_to_integers(BinaryOp op, Int left, Int right) {
  switch (op) {
    case BinaryOp::add:
      return Value::integer(add(left, right));
    case BinaryOp::subtract:
      return Value::integer(subtract(left, right));
    case BinaryOp::multiply:
      return Value::integer(multiply(left, right));
    case BinaryOp::divide:
      return Value::real(divide(static_cast<double>(left), static_cast<double>(right)));
    case BinaryOp::floor_divide:
      return Value::integer(floor_divide(left, right));
    case BinaryOp::modulo:
      return Value::integer(modulo(left, right));
    case BinaryOp::power:
      return power(Value::integer(left), Value::integer(right));
  }
  return {};
}

Value apply_to_reals(BinaryOp op, double left, double right) {
  switch (op) {
    case BinaryOp::add:
      return Value::real(left + right);
    case BinaryOp::subtract:
      return Value::real(left - right);
    case BinaryOp::multiply:
      return Value::real(left * right);
    case BinaryOp::divide:
      return Value::real(divide(left, right));
    case BinaryOp::floor_divide:
      return Value::real(floor_divide(left, right));
    case BinaryOp::modulo:
      return Value::real(modulo(left, right));
    case BinaryOp::power:
      return power(Value::real(left), Value::real(right));
  }
  return {};
}

/// When one of two is markup, the other is escaped and the sum is markup.
Value add_texts(const Value &left, const Value &right) {
  const bool is_markup = left.is_markup() || right.is_markup();
  const auto part = [&](const Value &value) {
    return is_markup && !value.is_markup() ? escape_html(*value.as_string()) : *value.as_string();
  };
  check_value_size(left.as_string()->size() + right.as_string()->size());
  return Value::string(part(left) + part(right), is_markup);
}

Value like(const Value &sequence, std::vector<Value> items) {
  return sequence.as_list() != nullptr ? Value::list(std::move(items))
                                       : Value::tuple(std::move(items));
}

Value add_sequences(const Value &left, const Value &right) {
  std::vector<Value> items = *left.as_items();
  items.insert(items.end(), right.as_items()->begin(), right.as_items()->end());
  return like(left, std::move(items));
}

std::optional<Value> repeat(const Value &sequence, const Value &count) {
  const auto n = count.as_integer();
  if (!n) return std::nullopt;
  if (const std::string *text = sequence.as_string()) {
    return Value::string(repeat_text(*text, *n), sequence.is_markup());
  }
  const auto *items = sequence.as_items();
  if (items == nullptr) return std::nullopt;
  const auto n_times = static_cast<size_t>(std::clamp<Int>(*n, 0, k_max_value_size));
  check_value_size(n_times, items->size() * sizeof(Value));
  std::vector<Value> repeated;
  for (size_t i = 0; i < n_times && !items->empty(); ++i) {
    repeated.insert(repeated.end(), items->begin(), items->end());
  }
  return like(sequence, std::move(repeated));
}

std::optional<Value> apply_to_sequences(BinaryOp op, const Value &left, const Value &right) {
  if (op == BinaryOp::modulo && left.is_string()) {
    return Value::string(print_formatted(*left.as_string(), right, left.is_markup()),
                         left.is_markup());
  }
  refuse_undefined(left);
  refuse_undefined(right);
  if (op == BinaryOp::multiply) {
    const auto result = repeat(left, right);
    return result ? result : repeat(right, left);
  }
  if (op != BinaryOp::add || left.kind() != right.kind()) return std::nullopt;
  if (left.is_string()) return add_texts(left, right);
  if (left.as_items() != nullptr) return add_sequences(left, right);
  return std::nullopt;
}

}  // namespace

Value apply(BinaryOp op, const Value &left, const Value &right) {
  const auto left_int = left.as_integer();
  const auto right_int = right.as_integer();
  if (left_int && right_int) return apply_to_integers(op, *left_int, *right_int);
  const auto left_real = as_number(left);
  const auto right_real = as_number(right);
  if (left_real && right_real) return apply_to_reals(op, *left_real, *right_real);
  if (const auto result = apply_to_sequences(op, left, right)) return *result;
  type_error(fmt::format("unsupported operand type(s) for {}: {} and {}", sign_of(op),
                         quoted_type(left), quoted_type(right)));
}

Value negate(const Value &value) {
  refuse_undefined(value);
  if (const double *real = value.as_real()) return Value::real(-*real);
  if (const auto integer = value.as_integer()) return Value::integer(subtract(0, *integer));
  type_error(fmt::format("bad operand type for unary -: {}", quoted_type(value)));
}

Value affirm(const Value &value) {
  refuse_undefined(value);
  if (value.as_real() != nullptr) return value;
  if (const auto integer = value.as_integer()) return Value::integer(*integer);
  type_error(fmt::format("bad operand type for unary +: {}", quoted_type(value)));
}

}  // namespace patchbay::jinja
