#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace patchbay::jinja {

/// Python's integers as far as 128 bits go; results that need more are refused.
__extension__ typedef __int128 Int;
__extension__ typedef unsigned __int128 UnsignedInt;

enum class Kind { undefined, none, boolean, integer, real, string, list, tuple, dict, object };

class Value;
class Dict;
class Object;

/// What a value would take if it were written out, and how deep it is nested.
struct Extent {
  size_t size_bytes = 0;
  int depth = 0;
};

/// A piece of text. `markup`: it passed `escape` or `safe`, so that what is added to it will be
/// escaped (markupsafe.Markup).
struct Text {
  std::string text;
  bool markup = false;
};

/// Why a name or attribute has no value.
struct Undefined {
  std::string message;
  bool unsafe = false;  ///< it is there but the sandbox hides it
};

struct Sequence {
  explicit Sequence(std::vector<Value> values);

  std::vector<Value> items;
  Extent extent;
};

struct List : Sequence {
  using Sequence::Sequence;
};

/// `is_group`: a pair made by groupby, whose parts are also called `grouper` and `list`.
struct Tuple : Sequence {
  using Sequence::Sequence;
  bool is_group = false;
};

/// A value as Python has it. Immutable but for some objects, so copies share what they hold.
class Value {
 public:
  Value() : held_(None{}) {}

  [[nodiscard]] static Value none() { return {}; }
  [[nodiscard]] static Value undefined(std::string message, bool unsafe = false);
  [[nodiscard]] static Value boolean(bool value) { return Value(value); }
  [[nodiscard]] static Value integer(Int value) { return Value(value); }
  [[nodiscard]] static Value size(size_t value) { return Value(static_cast<Int>(value)); }
  [[nodiscard]] static Value real(double value) { return Value(value); }
  [[nodiscard]] static Value string(std::string text, bool markup = false);
  [[nodiscard]] static Value list(std::vector<Value> items);
  [[nodiscard]] static Value tuple(std::vector<Value> items);
  /// (grouper, list) of groupby.
  [[nodiscard]] static Value group(Value grouper, Value list);
  /// Of equal keys the first key and the last value stay. Throws RenderError when a key is
  /// unhashable.
  [[nodiscard]] static Value dict(std::vector<std::pair<Value, Value>> entries);
  [[nodiscard]] static Value object(std::shared_ptr<Object> object);

  [[nodiscard]] Kind kind() const { return static_cast<Kind>(held_.index()); }
  [[nodiscard]] bool is_undefined() const { return kind() == Kind::undefined; }
  [[nodiscard]] bool is_none() const { return kind() == Kind::none; }
  [[nodiscard]] bool is_string() const { return kind() == Kind::string; }
  [[nodiscard]] bool is_markup() const;

  // Null when it is of another kind.
  [[nodiscard]] const Undefined *as_undefined() const;
  [[nodiscard]] const bool *as_boolean() const { return std::get_if<bool>(&held_); }
  [[nodiscard]] const double *as_real() const { return std::get_if<double>(&held_); }
  [[nodiscard]] const std::string *as_string() const;
  [[nodiscard]] const std::vector<Value> *as_list() const;
  [[nodiscard]] const Tuple *as_tuple() const;
  /// Of a list or a tuple.
  [[nodiscard]] const std::vector<Value> *as_items() const;
  [[nodiscard]] const Dict *as_dict() const;
  [[nodiscard]] Object *as_object() const;

  /// True and False are integers too, as in Python.
  [[nodiscard]] std::optional<Int> as_integer() const;

  /// The object itself when it is a T, else null.
  template <class T>
  [[nodiscard]] T *as() const {
    return dynamic_cast<T *>(as_object());
  }

  /// Whether both are one and the same, as Python's `is` would say.
  [[nodiscard]] bool is_same(const Value &other) const;
  [[nodiscard]] bool truth() const;
  [[nodiscard]] Extent extent() const;
  /// As Python calls its type.
  [[nodiscard]] std::string_view type_name() const;

 private:
  struct None {};
  // In the order of Kind.
  using Held = std::variant<std::shared_ptr<const Undefined>, None, bool, Int, double,
                            std::shared_ptr<const Text>, std::shared_ptr<const List>,
                            std::shared_ptr<const Tuple>, std::shared_ptr<const Dict>,
                            std::shared_ptr<Object>>;

  template <class T>
  explicit Value(T held) : held_(std::move(held)) {}

  Held held_;
};

/// Entries in the order in which their keys came.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  explicit Dict(std::vector<Entry> entries);

  [[nodiscard]] const std::vector<Entry> &entries() const { return entries_; }
  /// Throws RenderError when `key` is unhashable.
  [[nodiscard]] const Value *find(const Value &key) const;
  [[nodiscard]] const Value *find(std::string_view key) const;
  [[nodiscard]] const Extent &extent() const { return extent_; }

 private:
  [[nodiscard]] std::optional<size_t> index_of(const Value &key, size_t hash) const;
  void insert(Entry entry);

  std::vector<Entry> entries_;
  std::unordered_multimap<size_t, size_t> index_;  // from hash to position
  Extent extent_;
};

/// Gives one item after the other, then nothing.
using Iterator = std::function<std::optional<Value>()>;

struct Arguments;
class Runtime;

/// Everything that is more than data: functions, iterators, namespaces, the loop.
class Object : public std::enable_shared_from_this<Object> {
 public:
  Object() = default;
  Object(const Object &) = delete;
  Object &operator=(const Object &) = delete;
  virtual ~Object() = default;

  [[nodiscard]] virtual std::string_view type_name() const = 0;
  /// Throws RenderError unless Python prints the same each time.
  [[nodiscard]] virtual std::string repr(int depth);
  [[nodiscard]] virtual std::optional<size_t> length() { return std::nullopt; }
  [[nodiscard]] virtual bool truth();
  /// Null when it cannot be iterated.
  [[nodiscard]] virtual Iterator iterate() { return nullptr; }
  [[nodiscard]] virtual bool is_callable() const { return false; }
  /// Throws RenderError, also when it cannot be called.
  [[nodiscard]] virtual Value call(Runtime &runtime, const Arguments &arguments);
  [[nodiscard]] virtual std::optional<Value> attribute(std::string_view /*name*/) { return {}; }
  [[nodiscard]] virtual bool equals(const Object &other) const { return this == &other; }
  [[nodiscard]] virtual Extent extent() const { return {.size_bytes = 64}; }
};

/// "list", for "'list' object is not callable" and its like.
[[nodiscard]] inline std::string quoted_type(const Value &value) {
  return "'" + std::string(value.type_name()) + "'";
}

/// Throws RenderError when `value` is undefined, with the reason why it is.
void refuse_undefined(const Value &value);

}  // namespace patchbay::jinja
