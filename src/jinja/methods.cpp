#include "jinja/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/objects.h"
#include "jinja/print.h"

namespace patchbay::jinja {

namespace {

template <size_t n>
const Member *find_in(const std::array<Member, n> &members, std::string_view name) {
  const auto *at = std::find_if(members.begin(), members.end(),
                                [&](const Member &member) { return member.name == name; });
  return at == members.end() ? nullptr : at;
}

Value count_items(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"count", {"value"}, 1, true});
  runtime.read(self);
  const auto &items = *self.as_items();
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value &item) {
    return is_equal_item(item, bound.at(0));
  }));
}

Value index_of_item(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"index", {"value", "start", "stop"}, 1, true});
  runtime.read(self);
  const auto &items = *self.as_items();
  const auto n = static_cast<Int>(items.size());
  const auto clamped = [&](Int i) { return i < 0 ? std::max<Int>(i, -n) + n : std::min(i, n); };
  const Int stop = clamped(bound.integer(2, n));
  for (Int i = clamped(bound.integer(1, 0)); i < stop; ++i) {
    if (is_equal_item(items[static_cast<size_t>(i)], bound.at(0))) return Value::integer(i);
  }
  value_error(repr(bound.at(0)) + " is not in list");
}

/// Nothing changes a value, so a copy is the value.
Value copy(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"copy", {}});
  return self;
}

Value get(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"get", {"key", "default"}, 1, true});
  if (const Value *found = self.as_dict()->find(bound.at(0))) return *found;
  return bound.find(1) == nullptr ? Value::none() : *bound.find(1);
}

template <DictView::Part part>
Value view(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"method", {}});
  return Value::object(std::make_shared<DictView>(self, part));
}

/// A bool is 0 or 1 as soon as one counts with it.
Value number_itself(const Value &self) {
  return self.as_real() != nullptr ? self : Value::integer(*self.as_integer());
}

Value zero(const Value &self) {
  return self.as_real() != nullptr ? Value::real(0) : Value::integer(0);
}

Value one(const Value & /*self*/) { return Value::integer(1); }

Value conjugate(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"conjugate", {}});
  return number_itself(self);
}

Value bit_length(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"bit_length", {}});
  Int n_bits = 0;
  for (Int rest = *self.as_integer(); rest != 0; rest /= 2) ++n_bits;
  return Value::integer(n_bits);
}

Value is_integer(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"is_integer", {}});
  const double value = *self.as_real();
  return Value::boolean(std::isfinite(value) && std::trunc(value) == value);
}

constexpr Member unsafe(std::string_view name) { return {.name = name, .is_unsafe = true}; }
constexpr Member unsupported(std::string_view name) { return {.name = name}; }
constexpr Member value(std::string_view name, Value (*value)(const Value &)) {
  return {.name = name, .value = value};
}

constexpr std::array k_list_members{
    Member{"copy", copy},
    Member{"count", count_items},
    Member{"index", index_of_item},
    unsafe("append"),
    unsafe("clear"),
    unsafe("extend"),
    unsafe("insert"),
    unsafe("pop"),
    unsafe("remove"),
    unsafe("reverse"),
    unsafe("sort"),
};

constexpr std::array k_tuple_members{Member{"count", count_items}, Member{"index", index_of_item}};

constexpr std::array k_dict_members{
    Member{"copy", copy},
    Member{"get", get},
    Member{"items", view<DictView::Part::items>},
    Member{"keys", view<DictView::Part::keys>},
    Member{"values", view<DictView::Part::values>},
    unsupported("fromkeys"),
    unsafe("clear"),
    unsafe("pop"),
    unsafe("popitem"),
    unsafe("setdefault"),
    unsafe("update"),
};

constexpr std::array k_integer_members{
    Member{"conjugate", conjugate},    Member{"bit_length", bit_length},
    value("real", number_itself),      value("imag", zero),
    value("numerator", number_itself), value("denominator", one),
    unsupported("as_integer_ratio"),   unsupported("bit_count"),
    unsupported("from_bytes"),         unsupported("to_bytes"),
};

constexpr std::array k_real_members{
    Member{"conjugate", conjugate},
    Member{"is_integer", is_integer},
    value("real", number_itself),
    value("imag", zero),
    unsupported("as_integer_ratio"),
    unsupported("fromhex"),
    unsupported("hex"),
};

}  // namespace

const Member *find_member(const Value &self, std::string_view name) {
  switch (self.kind()) {
    case Kind::string:
      return find_text_member(name);
    case Kind::list:
      return find_in(k_list_members, name);
    case Kind::tuple:
      return find_in(k_tuple_members, name);
    case Kind::dict:
      return find_in(k_dict_members, name);
    case Kind::boolean:
    case Kind::integer:
      return find_in(k_integer_members, name);
    case Kind::real:
      return find_in(k_real_members, name);
    default:
      return nullptr;
  }
}

}  // namespace patchbay::jinja
