#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "jinja/arguments.h"
#include "jinja/runtime.h"
#include "jinja/value.h"

namespace patchbay::jinja {

/// The variable `loop` of one run of a for loop, which also fetches its items: it looks ahead only
/// when it is asked for something that lies ahead, as jinja2 does.
class Loop : public Object, public Holder {
 public:
  /// Renders the loop once more, over other items and one level deeper.
  using Recurse = std::function<Value(const Value &items, int depth0)>;

  /// `length`: how many items `next` gives, when that is known. `recurse`: null unless the loop is
  /// recursive.
  Loop(Iterator next, std::optional<size_t> length, Recurse recurse, int depth0);

  /// The next item, which is then the current one.
  std::optional<Value> advance();

  [[nodiscard]] std::string_view type_name() const override { return "LoopContext"; }
  [[nodiscard]] std::string repr(int depth) override;
  [[nodiscard]] std::optional<size_t> length() override;
  [[nodiscard]] bool is_callable() const override { return true; }
  [[nodiscard]] Value call(Runtime &runtime, const Arguments &arguments) override;
  [[nodiscard]] std::optional<Value> attribute(std::string_view name) override;
  void clear() override;

 private:
  const std::optional<Value> &peek();
  [[nodiscard]] Int index() const { return index0_ + 1; }
  [[nodiscard]] Value cycle(const Arguments &arguments) const;
  [[nodiscard]] Value changed(const Arguments &arguments);
  [[nodiscard]] std::optional<Value> method(std::string_view name);

  Iterator next_;
  std::optional<size_t> length_;
  Recurse recurse_;
  int depth0_;
  Int index0_ = -1;
  std::optional<Value> before_;
  std::optional<Value> current_;
  std::optional<Value> after_;  // fetched ahead
  std::optional<Value> last_changed_;
};

}  // namespace patchbay::jinja
