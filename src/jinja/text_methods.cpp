#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "jinja/case.h"
#include "jinja/chars.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/methods.h"
#include "jinja/number_format.h"
#include "jinja/objects.h"
#include "jinja/print.h"
#include "jinja/str_format.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

/// Results of markup are markup, and what is put into it is escaped.
Value like(const Value &self, std::string_view text) {
  return Value::string(std::string(text), self.is_markup());
}

std::string inserted(const Value &self, const Value &argument, std::string_view method) {
  const std::string &text = require_text(argument, method);
  return self.is_markup() && !argument.is_markup() ? escape_html(text) : text;
}

Value list_like(const Value &self, const std::vector<std::string_view> &parts) {
  check_value_size(parts.size(), sizeof(Value));
  std::vector<Value> items;
  for (const std::string_view part : parts) items.push_back(like(self, part));
  return Value::list(std::move(items));
}

const std::string &text_of(Runtime &runtime, const Value &self) {
  runtime.read(self);
  return *self.as_string();
}

template <std::string (*change)(std::string_view)>
Value change_case(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"method", {}});
  return like(self, change(text_of(runtime, self)));
}

template <bool (*holds)(std::string_view)>
Value ask(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound none(arguments, {"method", {}});
  return Value::boolean(holds(text_of(runtime, self)));
}

/// Whether there are characters, and it holds for each.
template <bool (*holds)(char32_t)>
bool all_chars(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    if (!holds(next_char(text, pos))) return false;
  }
  return !text.empty();
}

bool is_alphabetic_char(char32_t c) { return is_in(CharClass::alphabetic, c); }
bool is_decimal_char(char32_t c) { return is_in(CharClass::decimal, c); }
bool is_alphanumeric_char(char32_t c) {
  return is_alphabetic_char(c) || is_in(CharClass::numeric, c);
}
bool is_printable_char(char32_t c) { return c == ' ' || is_in(CharClass::printable, c); }
bool is_ascii_char(char32_t c) { return c < 0x80; }

bool is_ascii_text(std::string_view text) { return text.empty() || all_chars<is_ascii_char>(text); }
bool is_printable_text(std::string_view text) {
  return text.empty() || all_chars<is_printable_char>(text);
}

template <bool left, bool right>
Value strip_sides(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"strip", {"chars"}, 0, true});
  return like(self, strip(text_of(runtime, self), {left, right}, bound.optional_text(0)));
}

template <bool from_right>
Value split(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"split", {"sep", "maxsplit"}});
  const std::string &text = text_of(runtime, self);
  const std::string *separator = bound.optional_text(0);
  const Int max_splits = bound.integer(1, -1);
  if (separator == nullptr) {
    return list_like(self, from_right ? split_space_from_right(text, max_splits)
                                      : split_space(text, max_splits));
  }
  if (separator->empty()) value_error("empty separator");
  return list_like(self, from_right ? split_at_from_right(text, *separator, max_splits)
                                    : split_at(text, *separator, max_splits));
}

Value split_into_lines(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"splitlines", {"keepends"}});
  return list_like(self, split_lines(text_of(runtime, self), bound.truth(0, false)));
}

template <bool from_right>
Value partition(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"partition", {"sep"}, 1, true});
  const std::string_view text = text_of(runtime, self);
  const std::string &separator = bound.text(0);
  if (separator.empty()) value_error("empty separator");
  const auto at = from_right ? find_last_text(text, separator) : find_text(text, separator);
  std::array<std::string_view, 3> parts{text, "", ""};
  if (at) {
    parts = {text.substr(0, *at), separator, text.substr(*at + separator.size())};
  } else if (from_right) {
    parts = {"", "", text};
  }
  return Value::tuple({like(self, parts[0]), like(self, parts[1]), like(self, parts[2])});
}

Value replace(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"replace", {"old", "new", "count"}, 2, true});
  const std::string new_text = inserted(self, bound.at(1), "replace");
  return like(self,
              replace_text(text_of(runtime, self), bound.text(0), new_text, bound.integer(2, -1)));
}

/// The part of a text that the arguments `start` and `end` choose.
struct Window {
  std::string_view text;
  size_t n_before = 0;  // characters
  bool is_beyond = false;
};

Window window_of(const std::string &text, const Bound &bound) {
  const size_t n = n_chars(text);
  const auto start = bound.optional_integer(1);
  const SliceRange slice = resolve_slice(start, bound.optional_integer(2), 1, n);
  if (start && *start > static_cast<Int>(n)) return {.is_beyond = true};
  const size_t begin = byte_of_char(text, static_cast<size_t>(slice.start));
  const size_t end = byte_of_char(text, static_cast<size_t>(slice.start) + slice.count);
  // An end before the start leaves no place, not even for nothing.
  const auto stop = resolve_slice(0, bound.optional_integer(2), 1, n).count;
  return {.text = std::string_view(text).substr(begin, end - begin),
          .n_before = static_cast<size_t>(slice.start),
          .is_beyond = static_cast<Int>(stop) < slice.start};
}

template <bool from_right, bool must_be_there>
Value find(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"find", {"sub", "start", "end"}, 1, true});
  const Window window = window_of(text_of(runtime, self), bound);
  const std::string &needle = bound.text(0);
  const auto at = window.is_beyond ? std::nullopt
                  : from_right     ? find_last_text(window.text, needle)
                                   : find_text(window.text, needle);
  if (at) return Value::size(window.n_before + n_chars(window.text.substr(0, *at)));
  if (must_be_there) value_error("substring not found");
  return Value::integer(-1);
}

Value count(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"count", {"sub", "start", "end"}, 1, true});
  const Window window = window_of(text_of(runtime, self), bound);
  const std::string &needle = bound.text(0);
  if (window.is_beyond) return Value::integer(0);
  if (needle.empty()) return Value::size(n_chars(window.text) + 1);
  return Value::size(split_at(window.text, needle, -1).size() - 1);
}

template <bool at_end>
Value has_affix(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const std::string_view method = at_end ? "endswith" : "startswith";
  const Bound bound(arguments, {method, {"prefix", "start", "end"}, 1, true});
  const Window window = window_of(text_of(runtime, self), bound);
  const auto matches = [&](const Value &affix) {
    const std::string &text = require_text(affix, method);
    return !window.is_beyond &&
           (at_end ? window.text.ends_with(text) : window.text.starts_with(text));
  };
  if (const Tuple *tuple = bound.at(0).as_tuple()) {
    return Value::boolean(std::any_of(tuple->items.begin(), tuple->items.end(), matches));
  }
  return Value::boolean(matches(bound.at(0)));
}

template <bool at_end>
Value remove_affix(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"removeprefix", {"prefix"}, 1, true});
  std::string_view text = text_of(runtime, self);
  const std::string &affix = bound.text(0);
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return like(self, text);
}

Value join(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"join", {"iterable"}, 1, true});
  const auto items = collect(runtime, bound.at(0));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += *self.as_string();
    if (self.is_markup() && !items[i].is_markup()) {
      out += escape_html(print(items[i]));
    } else if (const std::string *text = items[i].as_string()) {
      out += *text;
    } else {
      type_error(fmt::format("sequence item {}: expected str instance, {} found", i,
                             items[i].type_name()));
    }
    check_value_size(out.size());
  }
  return like(self, out);
}

/// '<' for ljust, '>' for rjust, '^' for center.
template <char align>
Value justify(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"method", {"width", "fillchar"}, 1, true});
  const std::string &text = text_of(runtime, self);
  const std::string fill = bound.find(1) == nullptr ? " " : inserted(self, bound.at(1), "method");
  if (n_chars(fill) != 1) {
    type_error("The fill character must be exactly one character long");
  }
  const Int width = bound.width(0, 0);
  const Int n_missing = width - static_cast<Int>(n_chars(text));
  // str.center puts the odd one to the left when the width is odd.
  const bool is_odd = align == '^' && n_missing > 0 && (n_missing & width & 1) != 0;
  const std::string padded = pad(text, is_odd ? width - 1 : width, align, fill);
  return like(self, is_odd ? fill + padded : padded);
}

Value zero_fill(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"zfill", {"width"}, 1, true});
  const std::string &text = text_of(runtime, self);
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const size_t n_sign = has_sign ? 1 : 0;
  return like(self,
              text.substr(0, n_sign) +
                  pad(text.substr(n_sign), bound.width(0, 0) - static_cast<Int>(n_sign), '>', "0"));
}

Value expand_tabs(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"expandtabs", {"tabsize"}});
  const Int n_tab = bound.width(0, 8);
  const std::string &text = text_of(runtime, self);
  std::string out;
  Int column = 0;
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_char(text, pos);
    if (c == '\t') {
      const Int n_blanks = n_tab > 0 ? n_tab - column % n_tab : 0;
      column += n_blanks;
      out += repeat_text(" ", n_blanks);
    } else {
      out += text.substr(begin, pos - begin);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    check_value_size(out.size());
  }
  return like(self, out);
}

Value format(Runtime &runtime, const Value &self, const Arguments &arguments) {
  return like(self, format_text(text_of(runtime, self), arguments, self.is_markup()));
}

Value format_map(Runtime &runtime, const Value &self, const Arguments &arguments) {
  const Bound bound(arguments, {"format_map", {"mapping"}, 1, true});
  const Dict *dict = bound.at(0).as_dict();
  if (dict == nullptr) type_error("format_map() needs a dict");
  Arguments named;
  for (const auto &[key, value] : dict->entries()) {
    if (const std::string *name = key.as_string()) named.named.emplace_back(*name, value);
  }
  return like(self, format_text(text_of(runtime, self), named, self.is_markup()));
}

constexpr Member unsupported(std::string_view name) { return {.name = name}; }

constexpr std::array k_members{
    Member{"capitalize", change_case<capitalize>},
    Member{"center", justify<'^'>},
    Member{"count", count},
    Member{"endswith", has_affix<true>},
    Member{"expandtabs", expand_tabs},
    Member{"find", find<false, false>},
    Member{"format", format},
    Member{"format_map", format_map},
    Member{"index", find<false, true>},
    Member{"isalnum", ask<all_chars<is_alphanumeric_char>>},
    Member{"isalpha", ask<all_chars<is_alphabetic_char>>},
    Member{"isascii", ask<is_ascii_text>},
    Member{"isdecimal", ask<all_chars<is_decimal_char>>},
    Member{"isdigit", ask<all_chars<is_digit>>},
    Member{"islower", ask<is_lower>},
    Member{"isprintable", ask<is_printable_text>},
    Member{"isspace", ask<all_chars<is_space>>},
    Member{"istitle", ask<is_title>},
    Member{"isupper", ask<is_upper>},
    Member{"join", join},
    Member{"ljust", justify<'<'>},
    Member{"lower", change_case<lower>},
    Member{"lstrip", strip_sides<true, false>},
    Member{"partition", partition<false>},
    Member{"removeprefix", remove_affix<false>},
    Member{"removesuffix", remove_affix<true>},
    Member{"replace", replace},
    Member{"rfind", find<true, false>},
    Member{"rindex", find<true, true>},
    Member{"rjust", justify<'>'>},
    Member{"rpartition", partition<true>},
    Member{"rsplit", split<true>},
    Member{"rstrip", strip_sides<false, true>},
    Member{"split", split<false>},
    Member{"splitlines", split_into_lines},
    Member{"startswith", has_affix<false>},
    Member{"strip", strip_sides<true, true>},
    Member{"swapcase", change_case<swapcase>},
    Member{"title", change_case<title>},
    Member{"upper", change_case<upper>},
    Member{"zfill", zero_fill},
    unsupported("casefold"),
    unsupported("encode"),
    unsupported("isidentifier"),
    unsupported("isnumeric"),
    unsupported("maketrans"),
    unsupported("translate"),
};

}  // namespace

const Member *find_text_member(std::string_view name) {
  const auto *at = std::find_if(k_members.begin(), k_members.end(),
                                [&](const Member &member) { return member.name == name; });
  return at == k_members.end() ? nullptr : at;
}

}  // namespace patchbay::jinja
