#include "jinja/str_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "jinja/attributes.h"
#include "jinja/error.h"
#include "jinja/format_spec.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

/// What stands between braces: "name.part[0]!r:>8".
struct Field {
  std::string_view name;
  char conversion = 0;
  std::string_view spec;
};

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Takes a field from behind its opening brace.
Field take_field(std::string_view &rest) {
  size_t end = 0;
  for (; end < rest.size(); ++end) {
    const char c = rest[end];
    if (c == '{') value_error("unexpected '{' in field name");
    if (c == '}' || c == ':' || c == '!') break;
    if (c == '[') end = std::min(rest.find(']', end), rest.size() - 1);
  }
  if (end == rest.size()) value_error("expected '}' before end of string");
  Field field{.name = rest.substr(0, end)};
  char stop = rest[end];
  rest.remove_prefix(end + 1);
  if (stop == '!') {
    if (rest.size() < 2) value_error("unmatched '{' in format spec");
    field.conversion = rest[0];
    stop = rest[1];
    rest.remove_prefix(2);
    if (stop != '}' && stop != ':') value_error("expected ':' after conversion specifier");
  }
  if (stop == '}') return field;
  size_t n_open = 1;
  for (size_t i = 0; i < rest.size(); ++i) {
    n_open += rest[i] == '{' ? 1 : 0;
    n_open -= rest[i] == '}' ? 1 : 0;
    if (n_open == 0) {
      field.spec = rest.substr(0, i);
      rest.remove_prefix(i + 1);
      return field;
    }
  }
  value_error("unmatched '{' in format spec");
}

class Formatter {
 public:
  Formatter(const Arguments &arguments, bool escapes) : arguments_(arguments), escapes_(escapes) {}

  std::string run(std::string_view format, int n_levels) {
    if (n_levels < 0) value_error("Max string recursion exceeded");
    std::string out;
    while (!format.empty()) {
      const char c = format.front();
      format.remove_prefix(1);
      const bool is_doubled = !format.empty() && format.front() == c;
      if (c != '{' && c != '}') {
        out += c;
      } else if (is_doubled) {
        out += c;
        format.remove_prefix(1);
      } else if (c == '}') {
        value_error("Single '}' encountered in format string");
      } else if (format.empty()) {
        value_error("Single '{' encountered in format string");
      } else {
        out += field_text(take_field(format), n_levels);
      }
      check_value_size(out.size());
    }
    return out;
  }

 private:
  std::string field_text(const Field &field, int n_levels) {
    const Value value = converted(field.conversion, look_up(numbered(field.name)));
    const std::string spec = run(field.spec, n_levels - 1);
    if (escapes_ && value.is_markup() && !spec.empty()) {
      value_error("Unsupported format specification for Markup.");
    }
    const std::string text = format_value(value, spec);
    return escapes_ && !value.is_markup() ? escape_html(text) : text;
  }

  /// A field without a name has the next number.
  std::string numbered(std::string_view name) {
    if (name.empty()) {
      if (is_manual_) value_error("cannot switch from manual field specification to automatic");
      return print_int(n_automatic_++);
    }
    if (is_digits(name)) {
      if (n_automatic_ > 0) {
        value_error("cannot switch from manual field specification to automatic field numbering");
      }
      is_manual_ = true;
    }
    return std::string(name);
  }

  [[nodiscard]] Value argument(std::string_view first) const {
    if (is_digits(first)) {
      const auto i = parse_int(first);
      const auto &positional = arguments_.positional;
      if (*i >= static_cast<Int>(positional.size())) {
        throw RenderError(Fault::lookup, "Replacement index out of range");
      }
      return positional[static_cast<size_t>(*i)];
    }
    const auto &named = arguments_.named;
    const auto at = std::find_if(named.begin(), named.end(),
                                 [&](const auto &entry) { return entry.first == first; });
    if (at == named.end()) throw RenderError(Fault::lookup, repr_text(first));
    return at->second;
  }

  [[nodiscard]] Value look_up(std::string_view name) const {
    const size_t n_first = std::min(name.find_first_of(".["), name.size());
    Value value = argument(name.substr(0, n_first));
    name.remove_prefix(n_first);
    while (!name.empty()) {
      const bool is_attribute = name[0] == '.';
      if (!is_attribute && name[0] != '[') {
        value_error("Only '.' or '[' may follow ']' in format field specifier");
      }
      name.remove_prefix(1);
      const size_t end =
          is_attribute ? std::min(name.find_first_of(".["), name.size()) : name.find(']');
      if (end == std::string_view::npos) value_error("Missing ']' in format string");
      const std::string_view part = name.substr(0, end);
      if (part.empty()) value_error("Empty attribute in format string");
      name.remove_prefix(is_attribute ? end : end + 1);
      if (is_attribute) {
        value = get_attribute(value, std::string(part));
      } else {
        value = get_item(value, is_digits(part) ? Value::integer(*parse_int(part))
                                                : Value::string(std::string(part)));
      }
    }
    return value;
  }

  static Value converted(char conversion, const Value &value) {
    switch (conversion) {
      case 0:
        return value;
      case 's':
        return Value::string(print(value));
      case 'r':
        return Value::string(repr(value));
      case 'a':
        return Value::string(repr_ascii(value));
      default:
        value_error(fmt::format("Unknown conversion specifier {}", conversion));
    }
  }

  const Arguments &arguments_;
  bool escapes_;
  Int n_automatic_ = 0;
  bool is_manual_ = false;
};

}  // namespace

std::string format_text(std::string_view format, const Arguments &arguments, bool escapes) {
  return Formatter(arguments, escapes).run(format, 2);
}

}  // namespace patchbay::jinja
