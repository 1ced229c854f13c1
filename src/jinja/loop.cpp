#include "jinja/loop.h"

#include <utility>
#include <vector>

#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/number.h"
#include "jinja/objects.h"

namespace patchbay::jinja {

Loop::Loop(Iterator next, std::optional<size_t> length, Recurse recurse, int depth0)
    : next_(std::move(next)), length_(length), recurse_(std::move(recurse)), depth0_(depth0) {}

std::optional<Value> Loop::advance() {
  auto item = after_ ? std::exchange(after_, std::nullopt) : next_();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

const std::optional<Value> &Loop::peek() {
  if (!after_) after_ = next_();
  return after_;
}

std::string Loop::repr(int /*depth*/) {
  const auto n = static_cast<Int>(*length());
  return "<LoopContext " + print_int(index()) + "/" + print_int(n) + ">";
}

std::optional<size_t> Loop::length() {
  if (length_) return length_;
  std::vector<Value> rest;
  while (auto item = next_()) rest.push_back(std::move(*item));
  length_ = rest.size() + static_cast<size_t>(index()) + (after_ ? 1 : 0);
  next_ = jinja::iterate(Value::list(std::move(rest)));
  return length_;
}

Value Loop::call(Runtime & /*runtime*/, const Arguments &arguments) {
  if (!recurse_) {
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  }
  const Bound bound(arguments, {"loop", {"iterable"}, 1});
  return recurse_(bound.at(0), depth0_ + 1);
}

Value Loop::cycle(const Arguments &arguments) const {
  if (!arguments.named.empty()) type_error("cycle() takes no keyword arguments");
  if (arguments.positional.empty()) type_error("no items for cycling given");
  return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
}

Value Loop::changed(const Arguments &arguments) {
  if (!arguments.named.empty()) type_error("changed() takes no keyword arguments");
  Value values = Value::tuple(arguments.positional);
  const bool is_same = last_changed_ && is_equal(*last_changed_, values);
  if (!is_same) last_changed_ = std::move(values);
  return Value::boolean(!is_same);
}

std::optional<Value> Loop::method(std::string_view name) {
  // A template may keep the method longer than its loop.
  const auto bind = [&](auto call) {
    return make_function([self = shared_from_this(), call](Runtime &, const Arguments &arguments) {
      return call(static_cast<Loop &>(*self), arguments);
    });
  };
  if (name == "cycle") {
    return bind([](Loop &loop, const Arguments &arguments) { return loop.cycle(arguments); });
  }
  if (name == "changed") {
    return bind([](Loop &loop, const Arguments &arguments) { return loop.changed(arguments); });
  }
  return std::nullopt;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return Value::integer(index());
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(!peek());
  if (name == "length") return Value::size(*length());
  if (name == "revindex") return Value::integer(static_cast<Int>(*length()) - index0_);
  if (name == "revindex0") return Value::integer(static_cast<Int>(*length()) - index());
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem") {
    return index0_ == 0 || !before_ ? Value::undefined("there is no previous item") : *before_;
  }
  if (name == "nextitem") {
    return peek() ? *after_ : Value::undefined("there is no next item");
  }
  return method(name);
}

void Loop::clear() {
  next_ = nullptr;
  recurse_ = nullptr;
  before_.reset();
  current_.reset();
  after_.reset();
  last_changed_.reset();
}

}  // namespace patchbay::jinja
