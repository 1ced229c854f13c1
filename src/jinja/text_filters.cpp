#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "jinja/case.h"
#include "jinja/chars.h"
#include "jinja/error.h"
#include "jinja/filters.h"
#include "jinja/json.h"
#include "jinja/limits.h"
#include "jinja/methods.h"
#include "jinja/objects.h"
#include "jinja/operators.h"
#include "jinja/print.h"
#include "jinja/printf.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

/// Text as it is, markup included; anything else printed.
Value soft_text(const Value &value) {
  return value.is_string() ? value : Value::string(print(value));
}

/// The filter is the string method `name`, called with the filter's arguments.
Value call_method(Runtime &runtime, std::string_view name, const Value &self,
                  const Arguments &arguments) {
  return find_text_member(name)->call(runtime, soft_text(self), arguments);
}

Value upper_case(Runtime &runtime, const Value &self, const Arguments &arguments) {
  return call_method(runtime, "upper", self, arguments);
}

Value lower_case(Runtime &runtime, const Value &self, const Arguments &arguments) {
  return call_method(runtime, "lower", self, arguments);
}

Value capital_case(Runtime &runtime, const Value &self, const Arguments &arguments) {
  return call_method(runtime, "capitalize", self, arguments);
}

Value trim(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"trim", {"chars"}});
  const Value chars = bound.find(0) == nullptr ? Value::none() : bound.at(0);
  return call_method(runtime, "strip", self, {.positional = {chars}, .named = {}});
}

Value center(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"center", {"width"}});
  const Value width = bound.find(0) == nullptr ? Value::integer(80) : bound.at(0);
  return call_method(runtime, "center", self, {.positional = {width}, .named = {}});
}

/// Each part that whitespace, a dash or an opening bracket begins gets a capital.
Value title_case(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"title", {}});
  runtime.read(self);
  const std::string text = print(self);
  std::string out;
  size_t begin = 0;
  const auto add_part = [&](size_t end) {
    if (end == begin) return;
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const size_t n_first = utf8_size_at(part, 0);
    out += upper(part.substr(0, n_first)) + lower(part.substr(n_first));
  };
  for (size_t pos = 0; pos < text.size();) {
    const size_t at = pos;
    const char32_t c = next_char(text, pos);
    const bool separates = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (!separates) continue;
    add_part(at);
    out += text.substr(at, pos - at);
    begin = pos;
  }
  add_part(text.size());
  return Value::string(std::move(out));
}

Value replace(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"replace", {"old", "new", "count"}, 2});
  runtime.read(self);
  return Value::string(replace_text(print(self), print(bound.at(0)), print(bound.at(1)),
                                    bound.optional_integer(2).value_or(-1)));
}

Value to_text(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"string", {}});
  return soft_text(self);
}

Value escape(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"escape", {}});
  runtime.read(self);
  return self.is_markup() ? self : Value::string(escape_html(print(self)), true);
}

Value force_escape(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"forceescape", {}});
  runtime.read(self);
  return Value::string(escape_html(print(self)), true);
}

Value mark_safe(Runtime & /*runtime*/, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"safe", {}});
  return Value::string(print(self), true);
}

Value format(Runtime &runtime, const Value &self, const Arguments &arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw RenderError(Fault::other,
                      "can't handle positional and keyword arguments at the same time");
  }
  runtime.read(self);
  std::vector<Dict::Entry> named;
  for (const auto &[name, value] : arguments.named) named.emplace_back(Value::string(name), value);
  const Value values =
      named.empty() ? Value::tuple(arguments.positional) : Value::dict(std::move(named));
  return Value::string(print_formatted(print(self), values, self.is_markup()), self.is_markup());
}

Value indent(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"indent", {"width", "first", "blank"}});
  runtime.read(self);
  const Value text = apply(BinaryOp::add, self, Value::string("\n", self.is_markup()));
  const Value *width = bound.find(0);
  const std::string indentation = width != nullptr && width->is_string()
                                      ? *width->as_string()
                                      : repeat_text(" ", bound.integer(0, 4));
  const bool indents_blank = bound.truth(2, false);
  const auto lines = split_lines(*text.as_string(), false);
  std::string out = bound.truth(1, false) ? indentation : "";
  out += lines.front();
  for (size_t i = 1; i < lines.size(); ++i) {
    out += '\n';
    if (indents_blank || !lines[i].empty()) out += indentation;
    out += lines[i];
    check_value_size(out.size());
  }
  return Value::string(std::move(out), self.is_markup());
}

Value truncate_text(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"truncate", {"length", "killwords", "end", "leeway"}});
  runtime.read(self);
  const Int length = bound.width(0, 255);
  const std::string end = bound.find(2) == nullptr ? "..." : bound.text(2);
  const Value *leeway_given = bound.find(3);
  const Int leeway = leeway_given == nullptr || leeway_given->is_none() ? 5 : bound.width(3, 5);
  const auto n_end = static_cast<Int>(n_chars(end));
  if (length < n_end || leeway < 0) {
    throw RenderError(Fault::other, "truncate() needs room for its end and no negative leeway");
  }
  if (static_cast<Int>(length_of(self)) <= length + leeway) return self;
  const std::string &text = require_text(self, "truncate");
  const std::string kept = text.substr(0, byte_of_char(text, static_cast<size_t>(length - n_end)));
  const std::string_view cut =
      bound.truth(1, false) ? std::string_view(kept) : split_at_from_right(kept, " ", 1).front();
  return apply(BinaryOp::add, Value::string(std::string(cut), self.is_markup()),
               Value::string(end));
}

Value count_words(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"wordcount", {}});
  runtime.read(self);
  const std::string text = print(self);
  Int n_words = 0;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    const bool is_word =
        c == '_' || is_in(CharClass::alphabetic, c) || is_in(CharClass::numeric, c);
    if (is_word && !in_word) ++n_words;
    in_word = is_word;
  }
  return Value::integer(n_words);
}

std::string quote_url(std::string_view text, bool is_query) {
  std::string out;
  for (const char c : text) {
    const bool is_safe =
        (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
        std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !is_query);
    if (is_safe) {
      out += c;
    } else if (c == ' ' && is_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

Value encode_url(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"urlencode", {}});
  runtime.read(self);
  if (self.is_string() || !is_iterable(self)) {
    return Value::string(quote_url(print(self), false));
  }
  const bool is_dict = self.as_dict() != nullptr;
  const Value pairs =
      is_dict ? Value::object(std::make_shared<DictView>(self, DictView::Part::items)) : self;
  std::string out;
  for (const Value &pair : collect(runtime, pairs)) {
    const auto parts = collect(runtime, pair);
    if (parts.size() != 2) value_error("urlencode() needs pairs");
    if (!out.empty()) out += '&';
    out += quote_url(print(parts[0]), true) + "=" + quote_url(print(parts[1]), true);
    check_value_size(out.size());
  }
  return Value::string(std::move(out));
}

/// The two texts that json.dumps takes as `separators`.
void read_separators(Runtime &runtime, const Value &separators, JsonStyle &style) {
  const auto parts = collect(runtime, separators);
  if (parts.size() != 2) value_error("tojson() needs two separators");
  style.item_separator = require_text(parts[0], "tojson");
  style.key_separator = require_text(parts[1], "tojson");
}

/// As transformers defines it: json.dumps without jinja2's escapes for HTML.
Value encode_json(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}});
  runtime.read(self);
  JsonStyle style{.ensure_ascii = bound.truth(0, false), .sort_keys = bound.truth(3, false)};
  if (const Value *levels = bound.find(1); levels != nullptr && !levels->is_none()) {
    style.indent =
        levels->is_string() ? *levels->as_string() : repeat_text(" ", require_integer(*levels));
    style.item_separator = ",";
  }
  if (const Value *separators = bound.find(2); separators != nullptr && !separators->is_none()) {
    read_separators(runtime, *separators, style);
  }
  return Value::string(to_json(self, style));
}

constexpr std::array<NamedFilter, 18> k_filters{{
    {"capitalize", capital_case},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"lower", lower_case},
    {"replace", replace},
    {"safe", mark_safe},
    {"string", to_text},
    {"title", title_case},
    {"tojson", encode_json},
    {"trim", trim},
    {"truncate", truncate_text},
    {"upper", upper_case},
    {"urlencode", encode_url},
    {"wordcount", count_words},
}};

}  // namespace

std::span<const NamedFilter> text_filters() { return k_filters; }

}  // namespace patchbay::jinja
