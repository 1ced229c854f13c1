#include "jinja/tests.h"

#include <unordered_map>

#include "jinja/case.h"
#include "jinja/compare.h"
#include "jinja/filters.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/print.h"

namespace patchbay::jinja {

namespace {

/// A test of the value alone.
template <bool (*holds)(const Value &)>
bool plain(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"test", {}});
  return holds(self);
}

/// A test against another value.
template <bool (*holds)(const Value &, const Value &)>
bool against(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"test", {"other"}, 1, true});
  runtime.read(std::min(self.extent().size_bytes, bound.at(0).extent().size_bytes));
  return holds(self, bound.at(0));
}

bool has_rest(const Value &value, const Value &divisor, Int rest) {
  return is_equal(apply(BinaryOp::modulo, value, divisor), Value::integer(rest));
}

bool is_odd(const Value &value) { return has_rest(value, Value::integer(2), 1); }
bool is_even(const Value &value) { return has_rest(value, Value::integer(2), 0); }

bool is_divisible(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"divisibleby", {"num"}, 1});
  return has_rest(self, bound.at(0), 0);
}

bool is_defined(const Value &value) { return !value.is_undefined(); }
bool is_undefined(const Value &value) { return value.is_undefined(); }
bool is_none(const Value &value) { return value.is_none(); }
bool is_boolean(const Value &value) { return value.as_boolean() != nullptr; }
bool is_true(const Value &value) { return is_boolean(value) && *value.as_boolean(); }
bool is_false(const Value &value) { return is_boolean(value) && !*value.as_boolean(); }
bool is_integer(const Value &value) { return value.kind() == Kind::integer; }
bool is_real(const Value &value) { return value.kind() == Kind::real; }
bool is_number(const Value &value) { return value.as_integer() || is_real(value); }
bool is_string(const Value &value) { return value.is_string(); }
bool is_mapping(const Value &value) { return value.as_dict() != nullptr; }
bool is_lower_text(const Value &value) { return is_lower(print(value)); }
bool is_upper_text(const Value &value) { return is_upper(print(value)); }
bool is_escaped(const Value &value) { return value.is_markup(); }

/// It has a length and takes a subscript.
bool is_sequence(const Value &value) {
  if (value.as_object() != nullptr) return value.as<Range>() != nullptr;
  return find_length(value).has_value();
}

/// jinja2's undefined value can be called, only to raise an error then.
bool is_callable(const Value &value) {
  return value.is_undefined() || (value.as_object() != nullptr && value.as_object()->is_callable());
}

bool is_filter(const Value &value) {
  (void)hash_of(value);  // what cannot be hashed cannot be looked for
  return value.is_string() && find_filter(*value.as_string()) != nullptr;
}

bool is_test(const Value &value) {
  (void)hash_of(value);
  return value.is_string() && find_test(*value.as_string()) != nullptr;
}

bool is_same(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"sameas", {"other"}, 1});
  return self.is_same(bound.at(0));
}

bool is_in(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"in", {"seq"}, 1});
  runtime.read(bound.at(0));
  return contains(bound.at(0), self);
}

bool is_unequal(const Value &left, const Value &right) { return !is_equal(left, right); }

template <Order order>
bool ordered(const Value &left, const Value &right) {
  return is_ordered(left, order, right);
}

const std::unordered_map<std::string_view, TestBody> &all_tests() {
  static const std::unordered_map<std::string_view, TestBody> tests{
      {"odd", plain<is_odd>},
      {"even", plain<is_even>},
      {"divisibleby", is_divisible},
      {"defined", plain<is_defined>},
      {"undefined", plain<is_undefined>},
      {"filter", plain<is_filter>},
      {"test", plain<is_test>},
      {"none", plain<is_none>},
      {"boolean", plain<is_boolean>},
      {"false", plain<is_false>},
      {"true", plain<is_true>},
      {"integer", plain<is_integer>},
      {"float", plain<is_real>},
      {"lower", plain<is_lower_text>},
      {"upper", plain<is_upper_text>},
      {"string", plain<is_string>},
      {"mapping", plain<is_mapping>},
      {"number", plain<is_number>},
      {"sequence", plain<is_sequence>},
      {"iterable", plain<is_iterable>},
      {"callable", plain<is_callable>},
      {"sameas", is_same},
      {"escaped", plain<is_escaped>},
      {"in", is_in},
      {"==", against<is_equal>},
      {"eq", against<is_equal>},
      {"equalto", against<is_equal>},
      {"!=", against<is_unequal>},
      {"ne", against<is_unequal>},
      {">", against<ordered<Order::greater>>},
      {"gt", against<ordered<Order::greater>>},
      {"greaterthan", against<ordered<Order::greater>>},
      {"ge", against<ordered<Order::greater_equal>>},
      {">=", against<ordered<Order::greater_equal>>},
      {"<", against<ordered<Order::less>>},
      {"lt", against<ordered<Order::less>>},
      {"lessthan", against<ordered<Order::less>>},
      {"<=", against<ordered<Order::less_equal>>},
      {"le", against<ordered<Order::less_equal>>},
  };
  return tests;
}

}  // namespace

TestBody find_test(std::string_view name) {
  const auto at = all_tests().find(name);
  return at == all_tests().end() ? nullptr : at->second;
}

}  // namespace patchbay::jinja
