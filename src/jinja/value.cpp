#include "jinja/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/limits.h"

namespace patchbay::jinja {

namespace {

constexpr size_t k_item_size = sizeof(Value);
constexpr size_t k_max_unindexed = 8;  // so few keys are found faster by looking at each

void add_item(Extent &extent, const Value &item) {
  const Extent inner = item.extent();
  extent.size_bytes += k_item_size + inner.size_bytes;
  extent.depth = std::max(extent.depth, inner.depth);
  check_value_size(extent.size_bytes);
}

void add_level(Extent &extent) {
  if (++extent.depth > k_max_value_depth) {
    throw RenderError(Fault::limit,
                      fmt::format("a value is nested more than {} levels deep", k_max_value_depth));
  }
}

}  // namespace

void check_value_size(size_t size_bytes) {
  if (size_bytes > k_max_value_size) {
    throw RenderError(Fault::limit,
                      fmt::format("a value would be larger than {} MiB", k_max_value_size >> 20));
  }
}

void check_value_size(size_t n, size_t size_bytes) {
  check_value_size(size_bytes > 0 && n > k_max_value_size / size_bytes ? k_max_value_size + 1
                                                                       : n * size_bytes);
}

Sequence::Sequence(std::vector<Value> values) : items(std::move(values)) {
  for (const Value &item : items) add_item(extent, item);
  add_level(extent);
}

Dict::Dict(std::vector<Entry> entries) {
  entries_.reserve(entries.size());
  for (Entry &entry : entries) insert(std::move(entry));
  for (const Entry &entry : entries_) {
    add_item(extent_, entry.first);
    add_item(extent_, entry.second);
  }
  add_level(extent_);
}

void Dict::insert(Entry entry) {
  const size_t hash = hash_of(entry.first);
  if (const auto at = index_of(entry.first, hash)) {
    entries_[*at].second = std::move(entry.second);
    return;
  }
  entries_.push_back(std::move(entry));
  if (entries_.size() == k_max_unindexed + 1) {
    for (size_t i = 0; i < entries_.size(); ++i) index_.emplace(hash_of(entries_[i].first), i);
  } else if (entries_.size() > k_max_unindexed) {
    index_.emplace(hash, entries_.size() - 1);
  }
}

std::optional<size_t> Dict::index_of(const Value &key, size_t hash) const {
  if (index_.empty()) {
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (is_equal_item(entries_[i].first, key)) return i;
    }
    return std::nullopt;
  }
  const auto [begin, end] = index_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (is_equal_item(entries_[at->second].first, key)) return at->second;
  }
  return std::nullopt;
}

const Value *Dict::find(const Value &key) const {
  const auto at = index_of(key, hash_of(key));
  return at ? &entries_[*at].second : nullptr;
}

const Value *Dict::find(std::string_view key) const {
  if (index_.empty()) {
    for (const Entry &entry : entries_) {
      const std::string *text = entry.first.as_string();
      if (text != nullptr && *text == key) return &entry.second;
    }
    return nullptr;
  }
  return find(Value::string(std::string(key)));
}

Value Value::undefined(std::string message, bool unsafe) {
  return Value(std::make_shared<const Undefined>(Undefined{std::move(message), unsafe}));
}

Value Value::string(std::string text, bool markup) {
  check_value_size(text.size());
  return Value(std::make_shared<const Text>(Text{std::move(text), markup}));
}

Value Value::list(std::vector<Value> items) {
  return Value(std::make_shared<const List>(std::move(items)));
}

Value Value::tuple(std::vector<Value> items) {
  return Value(std::make_shared<const Tuple>(std::move(items)));
}

Value Value::group(Value grouper, Value list) {
  auto pair = std::make_shared<Tuple>(std::vector<Value>{std::move(grouper), std::move(list)});
  pair->is_group = true;
  return Value(std::shared_ptr<const Tuple>(std::move(pair)));
}

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  return Value(std::make_shared<const Dict>(std::move(entries)));
}

Value Value::object(std::shared_ptr<Object> object) {
  if (object->extent().depth > k_max_value_depth) {
    throw RenderError(Fault::limit, fmt::format("iterators are chained more than {} levels deep",
                                                k_max_value_depth));
  }
  return Value(std::move(object));
}

bool Value::is_markup() const {
  const auto *text = std::get_if<std::shared_ptr<const Text>>(&held_);
  return text != nullptr && (*text)->markup;
}

const Undefined *Value::as_undefined() const {
  const auto *held = std::get_if<std::shared_ptr<const Undefined>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

const std::string *Value::as_string() const {
  const auto *held = std::get_if<std::shared_ptr<const Text>>(&held_);
  return held == nullptr ? nullptr : &(*held)->text;
}

const std::vector<Value> *Value::as_list() const {
  const auto *held = std::get_if<std::shared_ptr<const List>>(&held_);
  return held == nullptr ? nullptr : &(*held)->items;
}

const Tuple *Value::as_tuple() const {
  const auto *held = std::get_if<std::shared_ptr<const Tuple>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

const std::vector<Value> *Value::as_items() const {
  if (const Tuple *tuple = as_tuple()) return &tuple->items;
  return as_list();
}

const Dict *Value::as_dict() const {
  const auto *held = std::get_if<std::shared_ptr<const Dict>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

Object *Value::as_object() const {
  const auto *held = std::get_if<std::shared_ptr<Object>>(&held_);
  return held == nullptr ? nullptr : held->get();
}

std::optional<Int> Value::as_integer() const {
  if (const auto *integer = std::get_if<Int>(&held_)) return *integer;
  if (const bool *boolean = as_boolean()) return *boolean ? 1 : 0;
  return std::nullopt;
}

bool Value::is_same(const Value &other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return *as_boolean() == *other.as_boolean();
    case Kind::integer:
      return as_integer() == other.as_integer();
    case Kind::real:
      return false;  // Python makes a new float each time, so that a NaN is not even itself
    case Kind::undefined:
      return as_undefined() == other.as_undefined();
    case Kind::string:
      return as_string() == other.as_string();
    case Kind::list:
    case Kind::tuple:
      return as_items() == other.as_items();
    case Kind::dict:
      return as_dict() == other.as_dict();
    case Kind::object:
      return as_object() == other.as_object();
  }
  return false;
}

bool Value::truth() const {
  switch (kind()) {
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
      return *as_boolean();
    case Kind::integer:
      return *as_integer() != 0;
    case Kind::real:
      return *as_real() != 0;
    case Kind::string:
      return !as_string()->empty();
    case Kind::list:
    case Kind::tuple:
      return !as_items()->empty();
    case Kind::dict:
      return !as_dict()->entries().empty();
    case Kind::object:
      return as_object()->truth();
  }
  return false;
}

Extent Value::extent() const {
  switch (kind()) {
    case Kind::string:
      return {.size_bytes = as_string()->size()};
    case Kind::list:
      return std::get<std::shared_ptr<const List>>(held_)->extent;
    case Kind::tuple:
      return as_tuple()->extent;
    case Kind::dict:
      return as_dict()->extent();
    case Kind::object:
      return as_object()->extent();
    default:
      return {};
  }
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "NoneType";
    case Kind::boolean:
      return "bool";
    case Kind::integer:
      return "int";
    case Kind::real:
      return "float";
    case Kind::string:
      return is_markup() ? "Markup" : "str";
    case Kind::list:
      return "list";
    case Kind::tuple:
      return "tuple";
    case Kind::dict:
      return "dict";
    case Kind::object:
      return as_object()->type_name();
  }
  return {};
}

std::string Object::repr(int /*depth*/) {
  type_error(fmt::format("a {} object has no text that is the same each time", type_name()));
}

bool Object::truth() {
  const auto n = length();
  return !n || *n > 0;
}

Value Object::call(Runtime & /*runtime*/, const Arguments & /*arguments*/) {
  type_error(fmt::format("'{}' object is not callable", type_name()));
}

void refuse_undefined(const Value &value) {
  if (const Undefined *undefined = value.as_undefined()) {
    throw RenderError(Fault::undefined, undefined->message);
  }
}

}  // namespace patchbay::jinja
