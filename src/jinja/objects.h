#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jinja/arguments.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace patchbay::jinja {

/// Gives its items once, each made when it is asked for: what filters such as `map` return.
class Generator : public Object {
 public:
  /// `depth`: levels of what it reads from.
  Generator(Iterator next, int depth) : next_(std::move(next)), depth_(depth + 1) {}

  [[nodiscard]] std::string_view type_name() const override { return "generator"; }
  [[nodiscard]] Iterator iterate() override {
    return [this] { return next_(); };
  }
  [[nodiscard]] Extent extent() const override { return {.size_bytes = 64, .depth = depth_}; }

 private:
  Iterator next_;
  int depth_;
};

/// Counts a step for each item, so that no chain of iterators runs for ever. `source` and
/// `arguments` are what `next` holds.
[[nodiscard]] Value make_generator(Runtime &runtime, Iterator next, const Value &source,
                                   const Arguments &arguments = {});

class Range : public Object {
 public:
  Range(Int start, Int stop, Int step);

  [[nodiscard]] std::string_view type_name() const override { return "range"; }
  [[nodiscard]] std::string repr(int depth) override;
  [[nodiscard]] std::optional<size_t> length() override { return count_; }
  [[nodiscard]] Iterator iterate() override;
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  [[nodiscard]] bool equals(const Object &other) const override;
  /// REQUIRES: i below the length.
  [[nodiscard]] Value at(size_t i) const;
  [[nodiscard]] std::shared_ptr<Range> slice(std::optional<Int> start, std::optional<Int> stop,
                                             std::optional<Int> step) const;

 private:
  Int start_;
  Int stop_;
  Int step_;
  size_t count_ = 0;
};

/// dict.keys(), values() or items().
class DictView : public Object {
 public:
  enum class Part { keys, values, items };

  DictView(Value dict, Part part) : dict_(std::move(dict)), part_(part) {}

  [[nodiscard]] std::string_view type_name() const override;
  [[nodiscard]] std::string repr(int depth) override;
  [[nodiscard]] std::optional<size_t> length() override { return entries().size(); }
  [[nodiscard]] Iterator iterate() override;
  [[nodiscard]] bool equals(const Object &other) const override;
  [[nodiscard]] Extent extent() const override;
  [[nodiscard]] Value at(size_t i) const;

 private:
  [[nodiscard]] const std::vector<Dict::Entry> &entries() const {
    return dict_.as_dict()->entries();
  }

  Value dict_;
  Part part_;
};

/// The only value whose attributes a template can set.
class Namespace : public Object, public Holder {
 public:
  [[nodiscard]] std::string_view type_name() const override { return "Namespace"; }
  [[nodiscard]] std::string repr(int depth) override;
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  /// Throws RenderError for names that begin with an underscore.
  void set(const std::string &name, Value value);
  void clear() override;

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
  std::unordered_map<std::string, size_t> index_;
};

/// A function of ours.
class Function : public Object {
 public:
  using Body = std::function<Value(Runtime &, const Arguments &)>;

  /// `depth`: levels of what the body holds.
  explicit Function(Body body, int depth = 0) : body_(std::move(body)), depth_(depth + 1) {}

  [[nodiscard]] std::string_view type_name() const override { return "function"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  [[nodiscard]] Value call(Runtime &runtime, const Arguments &arguments) override {
    return body_(runtime, arguments);
  }
  [[nodiscard]] Extent extent() const override { return {.size_bytes = 64, .depth = depth_}; }

 private:
  Body body_;
  int depth_;
};

[[nodiscard]] Value make_function(Function::Body body);
/// One that holds `owner`.
[[nodiscard]] Value make_method(const Value &owner, Function::Body body);

/// cycler(a, b): next() gives them in turn.
class Cycler : public Object {
 public:
  explicit Cycler(Value items) : items_(std::move(items)) {}

  [[nodiscard]] std::string_view type_name() const override { return "Cycler"; }
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  [[nodiscard]] Extent extent() const override { return items_.extent(); }

 private:
  struct Position {
    size_t i = 0;
  };

  Value items_;  // a tuple, not empty
  std::shared_ptr<Position> position_ = std::make_shared<Position>();
};

/// joiner(separator): empty when it is called first, else the separator.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}

  [[nodiscard]] std::string_view type_name() const override { return "Joiner"; }
  [[nodiscard]] bool is_callable() const override { return true; }
  [[nodiscard]] Value call(Runtime &runtime, const Arguments &arguments) override;
  [[nodiscard]] Extent extent() const override { return separator_.extent(); }

 private:
  Value separator_;
  bool used_ = false;
};

/// Throws RenderError when `value` cannot be iterated.
[[nodiscard]] Iterator iterate(const Value &value);
[[nodiscard]] bool is_iterable(const Value &value);
/// All that iterating gives, with a step for each.
[[nodiscard]] std::vector<Value> collect(Runtime &runtime, const Value &value);
/// len(value). Throws RenderError where it has none.
[[nodiscard]] size_t length_of(const Value &value);
[[nodiscard]] std::optional<size_t> find_length(const Value &value);

}  // namespace patchbay::jinja
