#include "jinja/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "jinja/compare.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

Value from_json_string(const std::string &text) {
  if (!is_valid_utf8(text)) value_error("a text is not valid UTF-8");
  return Value::string(text);
}

Value from_json_at(const nlohmann::ordered_json &json, int depth) {
  using Type = nlohmann::ordered_json::value_t;
  if (depth > k_max_value_depth) {
    throw RenderError(Fault::limit,
                      fmt::format("JSON is nested more than {} levels deep", k_max_value_depth));
  }
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned:
      return Value::integer(json.get<uint64_t>());
    case Type::number_float:
      return Value::real(json.get<double>());
    case Type::string:
      return from_json_string(json.get_ref<const std::string &>());
    case Type::array: {
      std::vector<Value> items;
      for (const auto &item : json) items.push_back(from_json_at(item, depth + 1));
      return Value::list(std::move(items));
    }
    case Type::object: {
      std::vector<Dict::Entry> entries;
      for (const auto &[key, item] : json.items()) {
        entries.emplace_back(from_json_string(key), from_json_at(item, depth + 1));
      }
      return Value::dict(std::move(entries));
    }
    default:
      return Value::none();
  }
}

class JsonWriter {
 public:
  explicit JsonWriter(const JsonStyle &style) : style_(style) {}

  void write(const Value &value) {
    if (value.is_string()) {
      write_text(*value.as_string());
    } else if (value.as_items() != nullptr) {
      write_list(*value.as_items());
    } else if (value.as_dict() != nullptr) {
      write_dict(*value.as_dict());
    } else {
      out_ += scalar(value);
    }
    check_value_size(out_.size());
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  static std::string real(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return print_real(value);
  }

  static std::string scalar(const Value &value) {
    if (value.is_none()) return "null";
    if (const bool *boolean = value.as_boolean()) return *boolean ? "true" : "false";
    if (const auto integer = value.as_integer()) return print_int(*integer);
    if (const double *number = value.as_real()) return real(*number);
    type_error(fmt::format("Object of type {} is not JSON serializable", value.type_name()));
  }

  static std::string key_text(const Value &key) {
    if (const std::string *text = key.as_string()) return *text;
    if (key.is_none() || key.as_real() != nullptr || key.as_integer()) return scalar(key);
    type_error(fmt::format("keys must be str, int, float, bool or None, not {}", key.type_name()));
  }

  void break_line() {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level_; ++i) {
      out_ += *style_.indent;
      check_value_size(out_.size());
    }
  }

  void write_list(const std::vector<Value> &items) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    ++level_;
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      break_line();
      write(items[i]);
    }
    --level_;
    break_line();
    out_ += ']';
  }

  void write_dict(const Dict &dict) {
    if (dict.entries().empty()) {
      out_ += "{}";
      return;
    }
    std::vector<const Dict::Entry *> entries;
    for (const auto &entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [](const auto *left, const auto *right) {
        return is_ordered(left->first, Order::less, right->first);
      });
    }
    out_ += '{';
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      break_line();
      write_text(key_text(entries[i]->first));
      out_ += style_.key_separator;
      write(entries[i]->second);
    }
    --level_;
    break_line();
    out_ += '}';
  }

  void write_escape(char32_t c) {
    const auto code = static_cast<uint32_t>(c);
    if (code >= 0x10000) {  // as the two surrogates of UTF-16
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10),
                          0xDC00 + ((code - 0x10000) & 0x3FF));
    } else {
      out_ += fmt::format("\\u{:04x}", code);
    }
  }

  void write_char(std::string_view bytes, char32_t c) {
    switch (c) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\r':
        out_ += "\\r";
        break;
      case '\t':
        out_ += "\\t";
        break;
      case '\b':
        out_ += "\\b";
        break;
      case '\f':
        out_ += "\\f";
        break;
      default:
        if (c < 0x20 || (style_.ensure_ascii && c >= 0x80)) {
          write_escape(c);
        } else {
          out_ += bytes;
        }
    }
  }

  void write_text(std::string_view text) {
    out_ += '"';
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      const char32_t c = next_char(text, pos);
      write_char(text.substr(begin, pos - begin), c);
    }
    out_ += '"';
  }

  const JsonStyle &style_;
  std::string out_;
  int level_ = 0;
};

}  // namespace

Value from_json(const nlohmann::ordered_json &json) { return from_json_at(json, 0); }

std::string to_json(const Value &value, const JsonStyle &style) {
  JsonWriter writer(style);
  writer.write(value);
  return writer.take();
}

}  // namespace patchbay::jinja
