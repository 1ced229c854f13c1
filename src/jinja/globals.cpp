#include "jinja/globals.h"

#include <fmt/format.h>

#include <utility>

#include "jinja/arguments.h"
#include "jinja/error.h"
#include "jinja/objects.h"
#include "jinja/print.h"
#include "jinja/strftime.h"

namespace patchbay::jinja {

namespace {

constexpr size_t k_max_format = 10'000;  // bytes of a time's format

Value range(Runtime & /*runtime*/, const Arguments &arguments) {
  const Bound bound(arguments, {"range", {"start", "stop", "step"}, 1, true});
  const Int first = require_integer(bound.at(0));
  if (bound.find(1) == nullptr) return Value::object(std::make_shared<Range>(0, first, 1));
  return Value::object(
      std::make_shared<Range>(first, require_integer(bound.at(1)), bound.integer(2, 1)));
}

/// dict(mapping or pairs, **more), also of namespace().
std::vector<Dict::Entry> entries_of(Runtime &runtime, const Arguments &arguments) {
  if (arguments.positional.size() > 1) {
    type_error(
        fmt::format("dict expected at most 1 argument, got {}", arguments.positional.size()));
  }
  std::vector<Dict::Entry> entries;
  if (!arguments.positional.empty()) {
    const Value &source = arguments.positional.front();
    if (const Dict *dict = source.as_dict()) {
      entries = dict->entries();
    } else {
      for (const Value &pair : collect(runtime, source)) {
        auto parts = collect(runtime, pair);
        if (parts.size() != 2) {
          value_error(fmt::format("dictionary update sequence element has length {}; 2 is required",
                                  parts.size()));
        }
        entries.emplace_back(std::move(parts[0]), std::move(parts[1]));
      }
    }
  }
  for (const auto &[name, value] : arguments.named) {
    entries.emplace_back(Value::string(name), value);
  }
  return entries;
}

Value make_dict(Runtime &runtime, const Arguments &arguments) {
  return Value::dict(entries_of(runtime, arguments));
}

Value make_namespace(Runtime &runtime, const Arguments &arguments) {
  auto space = std::make_shared<Namespace>();
  for (auto &[name, value] : entries_of(runtime, arguments)) {
    // A name that is no text can never be asked for.
    if (name.is_string()) space->set(*name.as_string(), std::move(value));
  }
  runtime.keep(space);
  runtime.made(sizeof(Namespace));
  return Value::object(std::move(space));
}

Value make_cycler(Runtime & /*runtime*/, const Arguments &arguments) {
  if (!arguments.named.empty()) type_error("cycler() takes no keyword arguments");
  if (arguments.positional.empty()) {
    throw RenderError(Fault::other, "at least one item has to be provided");
  }
  return Value::object(std::make_shared<Cycler>(Value::tuple(arguments.positional)));
}

Value make_joiner(Runtime & /*runtime*/, const Arguments &arguments) {
  const Bound bound(arguments, {"joiner", {"sep"}});
  return Value::object(
      std::make_shared<Joiner>(bound.find(0) == nullptr ? Value::string(", ") : bound.at(0)));
}

Value raise_exception(Runtime & /*runtime*/, const Arguments &arguments) {
  const Bound bound(arguments, {"raise_exception", {"message"}, 1});
  throw RenderError(Fault::raised, print(bound.at(0)));
}

Value strftime_now(Runtime &runtime, const Arguments &arguments) {
  const Bound bound(arguments, {"strftime_now", {"format"}, 1});
  if (bound.text(0).size() > k_max_format) value_error("strftime_now: the format is too long");
  return Value::string(format_time(runtime.now(), bound.text(0)));
}

Value lipsum(Runtime & /*runtime*/, const Arguments & /*arguments*/) {
  throw RenderError(Fault::other, "lipsum() is not supported: its text is random");
}

}  // namespace

std::unordered_map<std::string, Value> make_globals() {
  return {{"range", make_function(range)},
          {"dict", make_function(make_dict)},
          {"namespace", make_function(make_namespace)},
          {"cycler", make_function(make_cycler)},
          {"joiner", make_function(make_joiner)},
          {"raise_exception", make_function(raise_exception)},
          {"strftime_now", make_function(strftime_now)},
          {"lipsum", make_function(lipsum)}};
}

}  // namespace patchbay::jinja
