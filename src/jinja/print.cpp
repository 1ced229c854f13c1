#include "jinja/print.h"

#include <fmt/format.h>

#include "jinja/chars.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

std::string escaped(char32_t c) {
  const auto code = static_cast<uint32_t>(c);
  return code < 0x100     ? fmt::format("\\x{:02x}", code)
         : code < 0x10000 ? fmt::format("\\u{:04x}", code)
                          : fmt::format("\\U{:08x}", code);
}

std::string quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (size_t pos = 0; pos < text.size();) {
    const size_t begin = pos;
    const char32_t c = next_char(text, pos);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (!is_in(CharClass::printable, c)) {
      out += escaped(c);
    } else {
      out += text.substr(begin, pos - begin);
    }
  }
  out += quote;
  return out;
}

std::string repr_dict(const Dict &dict, int depth) {
  std::string out = "{";
  for (const auto &[key, value] : dict.entries()) {
    if (out.size() > 1) out += ", ";
    out += repr(key, depth + 1);
    out += ": ";
    out += repr(value, depth + 1);
    check_value_size(out.size());
  }
  out += '}';
  return out;
}

}  // namespace

std::string print(const Value &value) {
  if (const std::string *text = value.as_string()) return *text;
  if (value.is_undefined()) return {};
  return repr(value);
}

std::string repr(const Value &value, int depth) {
  // A namespace may hold itself.
  if (depth > k_max_value_depth) {
    throw RenderError(Fault::limit, "a value is nested too deeply to be printed");
  }
  switch (value.kind()) {
    case Kind::undefined:
      return "Undefined";
    case Kind::none:
      return "None";
    case Kind::boolean:
      return *value.as_boolean() ? "True" : "False";
    case Kind::integer:
      return print_int(*value.as_integer());
    case Kind::real:
      return print_real(*value.as_real());
    case Kind::string: {
      std::string text = repr_text(*value.as_string());
      return value.is_markup() ? "Markup(" + text + ")" : text;
    }
    case Kind::list:
      return repr_items("[", *value.as_items(), "]", depth);
    case Kind::tuple:
      return repr_items("(", *value.as_items(), value.as_items()->size() == 1 ? ",)" : ")", depth);
    case Kind::dict:
      return repr_dict(*value.as_dict(), depth);
    case Kind::object:
      return value.as_object()->repr(depth);
  }
  return {};
}

std::string repr_text(std::string_view text) { return quoted(text); }

std::string repr_ascii(const Value &value) {
  const std::string text = repr(value);
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    out += c < 0x80 ? std::string(1, static_cast<char>(c)) : escaped(c);
  }
  return out;
}

std::string repr_items(std::string_view open, const std::vector<Value> &items,
                       std::string_view close, int depth) {
  std::string out(open);
  for (const Value &item : items) {
    if (out.size() > open.size()) out += ", ";
    out += repr(item, depth + 1);
    check_value_size(out.size());
  }
  out += close;
  return out;
}

}  // namespace patchbay::jinja
