#include <fmt/format.h>

#include <array>

#include "jinja/attribute_path.h"
#include "jinja/error.h"
#include "jinja/filters.h"
#include "jinja/objects.h"
#include "jinja/print.h"
#include "jinja/tests.h"

namespace patchbay::jinja {

namespace {

using Change = std::function<Value(const Value &)>;
using Condition = std::function<bool(const Value &)>;

template <class Found>
Found *require_named(Found *found, const Value &name, std::string_view what) {
  if (found == nullptr) {
    throw RenderError(Fault::other, fmt::format("No {} named {}.", what, repr(name)));
  }
  return found;
}

const std::string &name_of(const Value &name, std::string_view what) {
  refuse_undefined(name);
  if (const std::string *text = name.as_string()) return *text;
  throw RenderError(Fault::other, fmt::format("No {} named {}.", what, repr(name)));
}

/// map(attribute="name") or map("filter", arguments).
Change prepare_change(Runtime &runtime, Arguments arguments) {
  auto attribute =
      arguments.positional.empty() ? arguments.take("attribute") : std::optional<Value>();
  if (attribute) {
    const Value otherwise = arguments.take("default").value_or(Value::none());
    if (!arguments.named.empty()) {
      throw RenderError(Fault::other, fmt::format("Unexpected keyword argument '{}'",
                                                  arguments.named.front().first));
    }
    return [path = AttributePath(*attribute), otherwise](const Value &item) {
      return path.of(item, &otherwise);
    };
  }
  if (arguments.positional.empty()) {
    throw RenderError(Fault::other, "map requires a filter argument");
  }
  const Value name = arguments.positional.front();
  arguments.positional.erase(arguments.positional.begin());
  return [&runtime, name, rest = std::move(arguments)](const Value &item) {
    const FilterBody filter = require_named(find_filter(name_of(name, "filter")), name, "filter");
    Value changed = filter(runtime, item, rest);
    runtime.made(changed);
    return changed;
  };
}

/// select("test", arguments), or selectattr("name", "test", arguments).
Condition prepare_condition(Runtime &runtime, Arguments arguments, bool of_attribute) {
  auto &positional = arguments.positional;
  std::optional<AttributePath> path;
  if (of_attribute) {
    if (positional.empty()) {
      throw RenderError(Fault::other, "Missing parameter for attribute name");
    }
    path.emplace(positional.front());
    positional.erase(positional.begin());
  }
  const auto subject = [path](const Value &item) { return path ? path->of(item) : item; };
  if (positional.empty()) {
    return [subject](const Value &item) { return subject(item).truth(); };
  }
  const Value name = positional.front();
  positional.erase(positional.begin());
  return [&runtime, subject, name, rest = std::move(arguments)](const Value &item) {
    const Value value = subject(item);
    return require_named(find_test(name_of(name, "test")), name, "test")(runtime, value, rest);
  };
}

Value map(Runtime &runtime, const Value &self, const Arguments &arguments) {
  Iterator source;
  Change change;
  return make_generator(
      runtime,
      [&runtime, self, arguments, source, change]() mutable -> std::optional<Value> {
        if (!self.truth()) return std::nullopt;
        if (!change) change = prepare_change(runtime, arguments);
        if (!source) source = iterate(self);
        const auto item = source();
        return item ? std::optional<Value>(change(*item)) : std::nullopt;
      },
      self, arguments);
}

template <bool wanted, bool of_attribute>
Value choose(Runtime &runtime, const Value &self, const Arguments &arguments) {
  Iterator source;
  Condition condition;
  return make_generator(
      runtime,
      [&runtime, self, arguments, source, condition]() mutable -> std::optional<Value> {
        if (!self.truth()) return std::nullopt;
        if (!condition) condition = prepare_condition(runtime, arguments, of_attribute);
        if (!source) source = iterate(self);
        while (auto item = source()) {
          runtime.step();
          if (condition(*item) == wanted) return item;
        }
        return std::nullopt;
      },
      self, arguments);
}

constexpr std::array<NamedFilter, 5> k_filters{{{"map", map},
                                                {"reject", choose<false, false>},
                                                {"rejectattr", choose<false, true>},
                                                {"select", choose<true, false>},
                                                {"selectattr", choose<true, true>}}};

}  // namespace

std::span<const NamedFilter> selection_filters() { return k_filters; }

}  // namespace patchbay::jinja
