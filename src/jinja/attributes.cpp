#include "jinja/attributes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "jinja/error.h"
#include "jinja/methods.h"
#include "jinja/objects.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

std::string described(const Value &object) {
  return object.is_none() ? "None" : std::string(object.type_name()) + " object";
}

Value missing(const Value &object, const Value &index) {
  const std::string name = repr(index);
  return Value::undefined(index.is_string()
                              ? fmt::format("'{}' has no attribute {}", described(object), name)
                              : fmt::format("{} has no element {}", described(object), name));
}

Value hidden(const Value &object, const std::string &name) {
  return Value::undefined(fmt::format("access to attribute {} of {} object is unsafe.",
                                      repr_text(name), quoted_type(object)),
                          true);
}

/// What every object of Python has.
bool is_internal(std::string_view name) {
  constexpr std::array<std::string_view, 24> k_names{
      "__class__",   "__delattr__", "__dir__",       "__doc__",
      "__eq__",      "__format__",  "__ge__",        "__getattribute__",
      "__gt__",      "__hash__",    "__init__",      "__init_subclass__",
      "__le__",      "__lt__",      "__module__",    "__ne__",
      "__new__",     "__reduce__",  "__reduce_ex__", "__repr__",
      "__setattr__", "__sizeof__",  "__str__",       "__subclasshook__"};
  return std::find(k_names.begin(), k_names.end(), name) != k_names.end();
}

Value member_of(const Value &object, const Member &member) {
  if (member.is_unsafe) return hidden(object, std::string(member.name));
  if (member.call == nullptr) {
    return make_method(object, [&member](Runtime &, const Arguments &) -> Value {
      type_error(fmt::format("the method '{}' is not supported", member.name));
    });
  }
  return make_method(object, [object, &member](Runtime &runtime, const Arguments &arguments) {
    return member.call(runtime, object, arguments);
  });
}

std::optional<Value> find_attribute(const Value &object, const std::string &name) {
  if (object.is_undefined() && is_internal(name)) return hidden(object, name);
  refuse_undefined(object);
  if (const Member *member = find_member(object, name)) {
    return member->value != nullptr ? member->value(object) : member_of(object, *member);
  }
  if (const Tuple *tuple = object.as_tuple(); tuple != nullptr && tuple->is_group) {
    if (name == "grouper") return tuple->items[0];
    if (name == "list") return tuple->items[1];
  }
  if (Object *held = object.as_object()) {
    if (auto value = held->attribute(name)) return value;
  }
  if (is_internal(name)) return hidden(object, name);
  return std::nullopt;
}

std::optional<Value> item_at(size_t length, const Value &index, const auto &at) {
  auto i = index.as_integer();
  if (!i) return std::nullopt;
  if (*i < 0) *i += static_cast<Int>(length);
  if (*i < 0 || *i >= static_cast<Int>(length)) return std::nullopt;
  return at(static_cast<size_t>(*i));
}

std::optional<Value> find_item(const Value &object, const Value &index) {
  refuse_undefined(object);
  if (const Dict *dict = object.as_dict()) {
    // A key that cannot be hashed is not in there.
    const bool is_hashable = index.as_list() == nullptr && index.as_dict() == nullptr;
    const Value *found = nullptr;
    if (const std::string *key = index.as_string()) {
      found = dict->find(std::string_view(*key));
    } else if (is_hashable) {
      found = dict->find(index);
    }
    return found == nullptr ? std::nullopt : std::optional<Value>(*found);
  }
  if (const auto *items = object.as_items()) {
    return item_at(items->size(), index, [&](size_t i) { return (*items)[i]; });
  }
  if (const std::string *text = object.as_string()) {
    return item_at(n_chars(*text), index, [&](size_t i) {
      const SliceRange one{.start = static_cast<Int>(i), .step = 1, .count = 1};
      return Value::string(slice_text(*text, one), object.is_markup());
    });
  }
  if (auto *range = object.as<Range>()) {
    return item_at(*range->length(), index, [&](size_t i) { return range->at(i); });
  }
  return std::nullopt;
}

std::optional<Int> slice_bound(const Value &value) {
  if (value.is_none()) return std::nullopt;
  if (const auto bound = value.as_integer()) return bound;
  type_error("slice indices must be integers or None or have an __index__ method");
}

}  // namespace

Value get_attribute(const Value &object, const std::string &name) {
  if (auto attribute = find_attribute(object, name)) return *attribute;
  const Value index = Value::string(name);
  if (auto item = find_item(object, index)) return *item;
  return missing(object, index);
}

Value get_item(const Value &object, const Value &index) {
  if (auto item = find_item(object, index)) return *item;
  if (const std::string *name = index.as_string()) {
    if (auto attribute = find_attribute(object, *name)) return *attribute;
  }
  return missing(object, index);
}

Value get_attribute_only(const Value &object, const std::string &name) {
  if (auto attribute = find_attribute(object, name)) return *attribute;
  return missing(object, Value::string(name));
}

Value get_slice(const Value &object, const Value &start, const Value &stop, const Value &step) {
  refuse_undefined(object);
  const auto resolve = [&](size_t length) {
    return resolve_slice(slice_bound(start), slice_bound(stop), slice_bound(step), length);
  };
  if (const std::string *text = object.as_string()) {
    return Value::string(slice_text(*text, resolve(n_chars(*text))), object.is_markup());
  }
  if (const auto *items = object.as_items()) {
    const SliceRange slice = resolve(items->size());
    std::vector<Value> taken;
    for (size_t i = 0; i < slice.count; ++i) {
      taken.push_back(
          (*items)[static_cast<size_t>(slice.start + static_cast<Int>(i) * slice.step)]);
    }
    return object.as_list() != nullptr ? Value::list(std::move(taken))
                                       : Value::tuple(std::move(taken));
  }
  if (const auto *range = object.as<Range>()) {
    return Value::object(range->slice(slice_bound(start), slice_bound(stop), slice_bound(step)));
  }
  if (object.as_dict() != nullptr) type_error("unhashable type: 'slice'");
  type_error(fmt::format("{} object is not subscriptable", quoted_type(object)));
}

}  // namespace patchbay::jinja
