#include "jinja/objects.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "jinja/attributes.h"
#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

Iterator over_text(Value text) {
  return [text = std::move(text), pos = size_t{0}]() mutable -> std::optional<Value> {
    const std::string &bytes = *text.as_string();
    if (pos >= bytes.size()) return std::nullopt;
    const size_t size = utf8_size_at(bytes, pos);
    pos += size;
    return Value::string(bytes.substr(pos - size, size));
  };
}

Iterator over_items(Value list) {
  return [list = std::move(list), i = size_t{0}]() mutable -> std::optional<Value> {
    const auto &items = *list.as_items();
    if (i >= items.size()) return std::nullopt;
    return items[i++];
  };
}

Iterator over_keys(Value dict) {
  return [dict = std::move(dict), i = size_t{0}]() mutable -> std::optional<Value> {
    const auto &entries = dict.as_dict()->entries();
    if (i >= entries.size()) return std::nullopt;
    return entries[i++].first;
  };
}

}  // namespace

Value make_generator(Runtime &runtime, Iterator next, const Value &source,
                     const Arguments &arguments) {
  int depth = source.extent().depth;
  for (const Value &value : arguments.positional) depth = std::max(depth, value.extent().depth);
  for (const auto &[name, value] : arguments.named) depth = std::max(depth, value.extent().depth);
  auto counted = [&runtime, next = std::move(next)]() -> std::optional<Value> {
    runtime.step();
    return next();
  };
  return Value::object(std::make_shared<Generator>(std::move(counted), depth));
}

Range::Range(Int start, Int stop, Int step) : start_(start), stop_(stop), step_(step) {
  if (step == 0) value_error("range() arg 3 must not be zero");
  const Int distance = step > 0 ? subtract(stop, start) : subtract(start, stop);
  if (distance <= 0) return;
  const Int count = (distance - 1) / (step > 0 ? step : multiply(step, -1)) + 1;
  if (count > static_cast<Int>(k_max_range)) {
    throw RenderError(Fault::overflow,
                      fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE "
                                  "({}).",
                                  k_max_range));
  }
  count_ = static_cast<size_t>(count);
}

std::string Range::repr(int /*depth*/) {
  const std::string ends = print_int(start_) + ", " + print_int(stop_);
  return step_ == 1 ? "range(" + ends + ")" : "range(" + ends + ", " + print_int(step_) + ")";
}

Iterator Range::iterate() {
  return [this, i = size_t{0}]() mutable -> std::optional<Value> {
    if (i >= count_) return std::nullopt;
    return at(i++);
  };
}

std::optional<Value> Range::attribute(std::string_view name) {
  if (name == "start") return Value::integer(start_);
  if (name == "stop") return Value::integer(stop_);
  if (name == "step") return Value::integer(step_);
  if (name != "count" && name != "index") return std::nullopt;
  std::vector<Value> numbers;
  for (size_t i = 0; i < count_; ++i) numbers.push_back(at(i));
  return get_attribute(Value::list(std::move(numbers)), std::string(name));
}

bool Range::equals(const Object &other) const {
  const auto *range = dynamic_cast<const Range *>(&other);
  if (range == nullptr || range->count_ != count_) return false;
  return count_ == 0 || (range->start_ == start_ && (count_ == 1 || range->step_ == step_));
}

Value Range::at(size_t i) const { return Value::integer(start_ + static_cast<Int>(i) * step_); }

std::shared_ptr<Range> Range::slice(std::optional<Int> start, std::optional<Int> stop,
                                    std::optional<Int> step) const {
  const SliceRange slice = resolve_slice(start, stop, step, count_);
  const Int first = add(start_, multiply(slice.start, step_));
  const Int by = multiply(step_, slice.step);
  // The stop that Python reports is that of the slice, not the first number left out.
  const Int n = static_cast<Int>(count_);
  const auto clamp_stop = [&](Int index) {
    const Int from_front = index < 0 ? std::max<Int>(index, -n - 1) + n : index;
    return slice.step > 0 ? std::clamp<Int>(from_front, 0, n)
                          : std::clamp<Int>(from_front, -1, n - 1);
  };
  const Int last = stop ? clamp_stop(*stop) : slice.step > 0 ? n : -1;
  return std::make_shared<Range>(first, add(start_, multiply(last, step_)), by);
}

std::string_view DictView::type_name() const {
  return part_ == Part::keys ? "dict_keys" : part_ == Part::values ? "dict_values" : "dict_items";
}

std::string DictView::repr(int depth) {
  std::vector<Value> items;
  for (size_t i = 0; i < entries().size(); ++i) items.push_back(at(i));
  return repr_items(std::string(type_name()) + "([", items, "])", depth);
}

Iterator DictView::iterate() {
  return [this, i = size_t{0}]() mutable -> std::optional<Value> {
    if (i >= entries().size()) return std::nullopt;
    return at(i++);
  };
}

bool DictView::equals(const Object &other) const {
  const auto *view = dynamic_cast<const DictView *>(&other);
  if (this == view) return true;
  if (view == nullptr || part_ == Part::values || view->part_ != part_) return false;
  if (entries().size() != view->entries().size()) return false;
  return std::all_of(entries().begin(), entries().end(), [&](const Dict::Entry &entry) {
    const Value *found = view->dict_.as_dict()->find(entry.first);
    return found != nullptr && (part_ == Part::keys || is_equal_item(*found, entry.second));
  });
}

Extent DictView::extent() const {
  Extent extent = dict_.extent();
  ++extent.depth;
  return extent;
}

Value DictView::at(size_t i) const {
  const auto &[key, value] = entries()[i];
  return part_ == Part::keys ? key : part_ == Part::values ? value : Value::tuple({key, value});
}

std::string Namespace::repr(int depth) {
  std::vector<Dict::Entry> entries;
  for (const auto &[name, value] : attributes_) entries.emplace_back(Value::string(name), value);
  return "<Namespace " + jinja::repr(Value::dict(std::move(entries)), depth + 1) + ">";
}

std::optional<Value> Namespace::attribute(std::string_view name) {
  const auto at = index_.find(std::string(name));
  if (at == index_.end()) return std::nullopt;
  return attributes_[at->second].second;
}

void Namespace::set(const std::string &name, Value value) {
  if (name.starts_with('_')) {
    throw RenderError(Fault::other,
                      "Chat templates cannot store underscore-prefixed attributes on a namespace, "
                      "but got '" +
                          name + "'. Please rename the attribute.");
  }
  const auto [at, is_new] = index_.try_emplace(name, attributes_.size());
  if (is_new) {
    attributes_.emplace_back(name, std::move(value));
  } else {
    attributes_[at->second].second = std::move(value);
  }
}

void Namespace::clear() {
  index_.clear();
  attributes_.clear();
}

Value make_function(Function::Body body) {
  return Value::object(std::make_shared<Function>(std::move(body)));
}

Value make_method(const Value &owner, Function::Body body) {
  return Value::object(std::make_shared<Function>(std::move(body), owner.extent().depth));
}

std::optional<Value> Cycler::attribute(std::string_view name) {
  const auto item = [items = items_, position = position_] {
    return (*items.as_items())[position->i];
  };
  if (name == "current") return item();
  if (name == "items") return items_;
  if (name == "pos") return Value::size(position_->i);
  if (name == "next") {
    return make_method(items_,
                       [item, items = items_, position = position_](Runtime &, const Arguments &) {
                         Value value = item();
                         position->i = (position->i + 1) % items.as_items()->size();
                         return value;
                       });
  }
  if (name == "reset") {
    return make_method(items_, [position = position_](Runtime &, const Arguments &) {
      position->i = 0;
      return Value::none();
    });
  }
  return std::nullopt;
}

Value Joiner::call(Runtime & /*runtime*/, const Arguments &arguments) {
  const Bound none(arguments, {"joiner", {}});
  if (used_) return separator_;
  used_ = true;
  return Value::string("");
}

Iterator iterate(const Value &value) {
  switch (value.kind()) {
    case Kind::undefined:
      return [] { return std::optional<Value>(); };
    case Kind::string:
      return over_text(value);
    case Kind::list:
    case Kind::tuple:
      return over_items(value);
    case Kind::dict:
      return over_keys(value);
    case Kind::object:
      if (Iterator next = value.as_object()->iterate()) {
        return [value, next] { return next(); };  // `value` is kept for as long as it is iterated
      }
      break;
    default:
      break;
  }
  type_error(fmt::format("{} object is not iterable", quoted_type(value)));
}

bool is_iterable(const Value &value) {
  switch (value.kind()) {
    case Kind::none:
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      return false;
    case Kind::object:
      return value.as_object()->iterate() != nullptr;
    default:
      return true;
  }
}

std::vector<Value> collect(Runtime &runtime, const Value &value) {
  std::vector<Value> items;
  const Iterator next = iterate(value);
  while (auto item = next()) {
    runtime.step();
    items.push_back(std::move(*item));
    check_value_size(items.size(), sizeof(Value));
  }
  return items;
}

std::optional<size_t> find_length(const Value &value) {
  switch (value.kind()) {
    case Kind::undefined:
      return 0;
    case Kind::string:
      return n_chars(*value.as_string());
    case Kind::list:
    case Kind::tuple:
      return value.as_items()->size();
    case Kind::dict:
      return value.as_dict()->entries().size();
    case Kind::object:
      return value.as_object()->length();
    default:
      return std::nullopt;
  }
}

size_t length_of(const Value &value) {
  if (const auto length = find_length(value)) return *length;
  type_error(fmt::format("object of type {} has no len()", quoted_type(value)));
}

}  // namespace patchbay::jinja
