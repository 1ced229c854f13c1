#include "jinja/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "jinja/error.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

constexpr double k_int_bound = 0x1p127;

/// -1, 0, 1, or 2 when the two have no order because one is not a number.
int compare_int_with_real(Int left, double right) {
  if (std::isnan(right)) return 2;
  if (right >= k_int_bound) return -1;
  if (right < -k_int_bound) return 1;
  const double whole = std::trunc(right);
  const Int right_int = static_cast<Int>(whole);
  if (left != right_int) return left < right_int ? -1 : 1;
  return whole == right ? 0 : whole < right ? -1 : 1;
}

bool is_number(const Value &value) {
  return value.kind() == Kind::boolean || value.kind() == Kind::integer ||
         value.kind() == Kind::real;
}

int compare_numbers(const Value &left, const Value &right) {
  const double *left_real = left.as_real();
  const double *right_real = right.as_real();
  if (left_real != nullptr && right_real != nullptr) {
    if (std::isnan(*left_real) || std::isnan(*right_real)) return 2;
    return *left_real < *right_real ? -1 : *left_real > *right_real ? 1 : 0;
  }
  if (right_real != nullptr) return compare_int_with_real(*left.as_integer(), *right_real);
  if (left_real != nullptr) {
    const int order = compare_int_with_real(*right.as_integer(), *left_real);
    return order == 2 ? 2 : -order;
  }
  const Int a = *left.as_integer();
  const Int b = *right.as_integer();
  return a < b ? -1 : a > b ? 1 : 0;
}

bool are_equal_items(const std::vector<Value> &left, const std::vector<Value> &right) {
  return left.size() == right.size() &&
         std::equal(left.begin(), left.end(), right.begin(), is_equal_item);
}

bool are_equal_dicts(const Dict &left, const Dict &right) {
  if (left.entries().size() != right.entries().size()) return false;
  return std::all_of(left.entries().begin(), left.entries().end(), [&](const Dict::Entry &entry) {
    const Value *other = right.find(entry.first);
    return other != nullptr && is_equal_item(entry.second, *other);
  });
}

bool holds(int comparison, Order order) {
  switch (order) {
    case Order::less:
      return comparison == -1;
    case Order::less_equal:
      return comparison == -1 || comparison == 0;
    case Order::greater:
      return comparison == 1;
    case Order::greater_equal:
      return comparison == 1 || comparison == 0;
  }
  return false;
}

std::string_view sign_of(Order order) {
  switch (order) {
    case Order::less:
      return "<";
    case Order::less_equal:
      return "<=";
    case Order::greater:
      return ">";
    case Order::greater_equal:
      return ">=";
  }
  return {};
}

bool are_ordered_items(const std::vector<Value> &left, Order order,
                       const std::vector<Value> &right) {
  const size_t n_common = std::min(left.size(), right.size());
  for (size_t i = 0; i < n_common; ++i) {
    if (!is_equal_item(left[i], right[i])) return is_ordered(left[i], order, right[i]);
  }
  const int comparison = left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  return holds(comparison, order);
}

size_t mixed(size_t seed, size_t hash) {
  constexpr size_t k_golden_ratio = 0x9E3779B97F4A7C15ULL;
  return seed ^ (hash + k_golden_ratio + (seed << 6) + (seed >> 2));
}

size_t hash_of_int(Int value) {
  const auto bits = static_cast<UnsignedInt>(value);
  return mixed(std::hash<uint64_t>{}(static_cast<uint64_t>(bits)),
               static_cast<size_t>(static_cast<uint64_t>(bits >> 64)));
}

size_t hash_of_real(double value) {
  const bool is_whole = std::trunc(value) == value && value < k_int_bound && value >= -k_int_bound;
  return is_whole ? hash_of_int(static_cast<Int>(value)) : std::hash<double>{}(value);
}

}  // namespace

bool is_equal(const Value &left, const Value &right) {
  if (is_number(left) && is_number(right)) return compare_numbers(left, right) == 0;
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::undefined:
    case Kind::none:
      return true;
    case Kind::string:
      return *left.as_string() == *right.as_string();
    case Kind::list:
    case Kind::tuple:
      return are_equal_items(*left.as_items(), *right.as_items());
    case Kind::dict:
      return are_equal_dicts(*left.as_dict(), *right.as_dict());
    case Kind::object:
      return left.as_object()->equals(*right.as_object());
    default:
      return false;
  }
}

bool is_equal_item(const Value &left, const Value &right) {
  return left.is_same(right) || is_equal(left, right);
}

bool is_ordered(const Value &left, Order order, const Value &right) {
  refuse_undefined(left);
  refuse_undefined(right);
  if (is_number(left) && is_number(right)) return holds(compare_numbers(left, right), order);
  if (left.is_string() && right.is_string()) {
    // UTF-8 sorts as its code points do.
    const int comparison = left.as_string()->compare(*right.as_string());
    return holds(comparison < 0 ? -1 : comparison > 0 ? 1 : 0, order);
  }
  if (left.kind() == right.kind() && left.as_items() != nullptr) {
    return are_ordered_items(*left.as_items(), order, *right.as_items());
  }
  type_error(fmt::format("'{}' not supported between instances of {} and {}", sign_of(order),
                         quoted_type(left), quoted_type(right)));
}

size_t hash_of(const Value &value) {
  switch (value.kind()) {
    case Kind::undefined:
    case Kind::none:
      return static_cast<size_t>(value.kind());
    case Kind::boolean:
    case Kind::integer:
      return hash_of_int(*value.as_integer());
    case Kind::real:
      return hash_of_real(*value.as_real());
    case Kind::string:
      return std::hash<std::string>{}(*value.as_string());
    case Kind::tuple: {
      size_t hash = value.as_items()->size();
      for (const Value &item : *value.as_items()) hash = mixed(hash, hash_of(item));
      return hash;
    }
    case Kind::object:
      return std::hash<const Object *>{}(value.as_object());
    default:
      type_error(fmt::format("unhashable type: {}", quoted_type(value)));
  }
}

bool contains(const Value &container, const Value &item) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::string:
      if (!item.is_string()) {
        type_error(
            fmt::format("'in <string>' requires string as left operand, not {}", item.type_name()));
      }
      return find_text(*container.as_string(), *item.as_string()).has_value();
    case Kind::list:
    case Kind::tuple: {
      const auto &items = *container.as_items();
      return std::any_of(items.begin(), items.end(),
                         [&](const Value &held) { return is_equal_item(held, item); });
    }
    case Kind::dict:
      return container.as_dict()->find(item) != nullptr;
    case Kind::object:
      if (Iterator next = container.as_object()->iterate()) {
        while (const auto held = next()) {
          if (is_equal_item(*held, item)) return true;
        }
        return false;
      }
      break;
    default:
      break;
  }
  type_error(fmt::format("argument of type {} is not iterable", quoted_type(container)));
}

}  // namespace patchbay::jinja
