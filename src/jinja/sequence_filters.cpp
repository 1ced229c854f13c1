#include <algorithm>
#include <array>

#include "jinja/attribute_path.h"
#include "jinja/attributes.h"
#include "jinja/error.h"
#include "jinja/filters.h"
#include "jinja/limits.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

Value value_or(const Bound &bound, size_t i, const Value &otherwise) {
  return bound.find(i) == nullptr ? otherwise : bound.at(i);
}

Value length(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"len", {}});
  return Value::size(length_of(self));
}

Value otherwise(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"default", {"default_value", "boolean"}});
  const bool is_replaced = self.is_undefined() || (bound.truth(1, false) && !self.truth());
  return is_replaced ? value_or(bound, 0, Value::string("")) : self;
}

Value to_list(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"list", {}});
  return Value::list(collect(runtime, self));
}

Value items(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"items", {}});
  // A value that is no mapping is found out when the first item is asked for.
  Iterator next;
  return make_generator(
      runtime,
      [self, next]() mutable -> std::optional<Value> {
        if (self.is_undefined()) return std::nullopt;
        if (self.as_dict() == nullptr) type_error("Can only get item pairs from a mapping.");
        if (!next) {
          next = iterate(Value::object(std::make_shared<DictView>(self, DictView::Part::items)));
        }
        return next();
      },
      self, arguments);
}

Value join(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"join", {"d", "attribute"}});
  const AttributePath path(value_or(bound, 1, Value::none()));
  const std::string separator = bound.find(0) == nullptr ? "" : print(bound.at(0));
  const Iterator next = iterate(self);
  std::string out;
  for (size_t i = 0; auto item = next(); ++i) {
    runtime.step();
    if (i > 0) out += separator;
    out += print(path.of(*item));
    check_value_size(out.size());
  }
  return Value::string(std::move(out));
}

Value first(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"first", {}});
  const auto item = iterate(self)();
  return item ? *item : Value::undefined("No first item, sequence was empty.");
}

/// Whether Python's reversed() takes it.
bool is_reversible(const Value &value) {
  return is_iterable(value) && value.as<Generator>() == nullptr;
}

Value last(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"last", {}});
  if (!is_reversible(self)) type_error(quoted_type(self) + " object is not reversible");
  if (const auto *held = self.as_items(); held != nullptr && !held->empty()) return held->back();
  const auto all = collect(runtime, self);
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"reverse", {}});
  runtime.read(self);
  if (self.is_string()) {
    return get_slice(self, Value::none(), Value::none(), Value::integer(-1));
  }
  if (!is_iterable(self)) throw RenderError(Fault::other, "argument must be iterable");
  auto all = collect(runtime, self);
  std::reverse(all.begin(), all.end());
  Value reversed = Value::list(std::move(all));
  if (!is_reversible(self)) return reversed;
  return make_generator(runtime, iterate(reversed), reversed);
}

Value sum(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"sum", {"attribute", "start"}});
  const AttributePath path(value_or(bound, 0, Value::none()));
  Value total = value_or(bound, 1, Value::integer(0));
  if (total.is_string()) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  const Iterator next = iterate(self);
  while (auto item = next()) {
    runtime.step();
    total = apply(BinaryOp::add, total, path.of(*item));
    runtime.made(total);
  }
  return total;
}

Value batch(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"batch", {"linecount", "fill_with"}, 1});
  const Value &n_wanted = bound.at(0);
  const Value fill = value_or(bound, 1, Value::none());
  Iterator source;
  return make_generator(
      runtime,
      [&runtime, self, source, n_wanted, fill,
       held = std::optional<Value>()]() mutable -> std::optional<Value> {
        if (!source) source = iterate(self);
        std::vector<Value> line;
        if (held) line.push_back(*std::exchange(held, std::nullopt));
        const auto n = n_wanted.as_integer();
        while (auto item = source()) {
          runtime.step();
          if (n && static_cast<Int>(line.size()) == *n) {
            held = std::move(item);
            return Value::list(std::move(line));
          }
          line.push_back(std::move(*item));
        }
        if (line.empty()) return std::nullopt;
        if (!fill.is_none() && static_cast<Int>(line.size()) < require_integer(n_wanted)) {
          check_value_size(static_cast<size_t>(std::min<Int>(*n, k_max_value_size)), sizeof(Value));
          line.resize(static_cast<size_t>(*n), fill);
        }
        return Value::list(std::move(line));
      },
      self, arguments);
}

Value slice(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"slice", {"slices", "fill_with"}, 1});
  const Value &n_wanted = bound.at(0);
  const Value fill = value_or(bound, 1, Value::none());
  return make_generator(
      runtime,
      [&runtime, self, n_wanted, fill, all = std::vector<Value>(), i = Int{-1},
       begin = size_t{0}]() mutable -> std::optional<Value> {
        const Int n_slices = require_integer(n_wanted);
        if (i < 0) {
          all = collect(runtime, self);
          if (n_slices == 0) throw RenderError(Fault::other, "integer division or modulo by zero");
          i = 0;
        }
        if (i >= n_slices) return std::nullopt;
        const auto n = static_cast<size_t>(n_slices);
        const bool has_extra = static_cast<size_t>(i) < all.size() % n;
        const size_t end = begin + all.size() / n + (has_extra ? 1 : 0);
        std::vector<Value> part(all.begin() + static_cast<ptrdiff_t>(begin),
                                all.begin() + static_cast<ptrdiff_t>(end));
        if (!fill.is_none() && !has_extra) part.push_back(fill);
        begin = end;
        ++i;
        return Value::list(std::move(part));
      },
      self, arguments);
}

Value attribute(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"attr", {"name"}, 1});
  return get_attribute_only(self, bound.text(0));
}

constexpr std::array<NamedFilter, 14> k_filters{{{"attr", attribute},
                                                 {"batch", batch},
                                                 {"count", length},
                                                 {"d", otherwise},
                                                 {"default", otherwise},
                                                 {"first", first},
                                                 {"items", items},
                                                 {"join", join},
                                                 {"last", last},
                                                 {"length", length},
                                                 {"list", to_list},
                                                 {"reverse", reverse},
                                                 {"slice", slice},
                                                 {"sum", sum}}};

}  // namespace

std::span<const NamedFilter> sequence_filters() { return k_filters; }

}  // namespace patchbay::jinja
