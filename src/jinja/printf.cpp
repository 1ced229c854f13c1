#include "jinja/printf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "jinja/error.h"
#include "jinja/limits.h"
#include "jinja/number.h"
#include "jinja/number_format.h"
#include "jinja/print.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

// https://docs.python.org/3/library/stdtypes.html#printf-style-string-formatting
struct Conversion {
  bool alternative = false;
  bool zero = false;
  bool left = false;
  bool blank = false;
  bool plus = false;
  Int width = 0;
  std::optional<Int> precision;
  char type = 0;
};

class Formatter {
 public:
  Formatter(std::string_view format, const Value &values, bool escapes)
      : rest_(format), values_(values), escapes_(escapes) {}

  std::string run() {
    while (!rest_.empty()) {
      const size_t percent = rest_.find('%');
      out_ += rest_.substr(0, percent);
      if (percent == std::string_view::npos) break;
      rest_.remove_prefix(percent + 1);
      if (rest_.starts_with('%')) {
        out_ += take();
      } else {
        convert();
      }
      check_value_size(out_.size());
    }
    check_all_used();
    return std::move(out_);
  }

 private:
  // A list counts as a mapping here: it takes a subscript.
  [[nodiscard]] bool is_mapping() const {
    return values_.as_dict() != nullptr || values_.as_list() != nullptr || values_.is_undefined();
  }

  void check_all_used() const {
    const Tuple *tuple = values_.as_tuple();
    const bool is_rest = tuple != nullptr ? n_used_ < tuple->items.size()
                                          : n_used_ == 0 && !is_mapping() && !has_key_;
    if (is_rest) type_error("not all arguments converted during string formatting");
  }

  char take() {
    if (rest_.empty()) value_error("incomplete format");
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  Value next_value() {
    if (key_value_) return *key_value_;
    const Tuple *tuple = values_.as_tuple();
    if (tuple == nullptr && n_used_ == 0) {
      n_used_ = 1;
      return values_;
    }
    if (tuple == nullptr || n_used_ >= tuple->items.size()) {
      type_error("not enough arguments for format string");
    }
    return tuple->items[n_used_++];
  }

  void read_key() {
    key_value_.reset();
    if (rest_.empty() || rest_.front() != '(') return;
    if (!is_mapping()) type_error("format requires a mapping");
    int n_open = 1;
    size_t end = 1;
    while (end < rest_.size() && n_open > 0) {
      n_open += rest_[end] == '(' ? 1 : rest_[end] == ')' ? -1 : 0;
      ++end;
    }
    if (n_open > 0) value_error("incomplete format key");
    const std::string_view key = rest_.substr(1, end - 2);
    rest_.remove_prefix(end);
    refuse_undefined(values_);
    const Dict *dict = values_.as_dict();
    const Value *found = dict == nullptr ? nullptr : dict->find(key);
    if (found == nullptr) throw RenderError(Fault::lookup, repr_text(key));
    key_value_ = *found;
    has_key_ = true;
  }

  Int read_number() {
    if (!rest_.empty() && rest_.front() == '*') {
      rest_.remove_prefix(1);
      key_value_.reset();
      const Value value = next_value();
      if (value.kind() != Kind::integer && value.kind() != Kind::boolean) {
        type_error("* wants int");
      }
      constexpr Int k_too_large = k_max_value_size + 1;
      return std::clamp(*value.as_integer(), -k_too_large, k_too_large);
    }
    Int number = 0;
    while (!rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9') {
      number = number * 10 + (take() - '0');
      check_value_size(static_cast<size_t>(number));
    }
    return number;
  }

  Conversion read_conversion() {
    read_key();
    Conversion conversion;
    for (bool more = true; more;) {
      const char c = rest_.empty() ? '\0' : rest_.front();
      more = true;
      switch (c) {
        case '#':
          conversion.alternative = true;
          break;
        case '0':
          conversion.zero = true;
          break;
        case '-':
          conversion.left = true;
          break;
        case ' ':
          conversion.blank = true;
          break;
        case '+':
          conversion.plus = true;
          break;
        default:
          more = false;
      }
      if (more) rest_.remove_prefix(1);
    }
    conversion.width = read_number();
    if (conversion.width < 0) {
      conversion.left = true;
      conversion.width = -conversion.width;
    }
    if (!rest_.empty() && rest_.front() == '.') {
      rest_.remove_prefix(1);
      conversion.precision = std::max<Int>(read_number(), 0);
    }
    while (!rest_.empty() &&
           (rest_.front() == 'h' || rest_.front() == 'l' || rest_.front() == 'L')) {
      rest_.remove_prefix(1);  // lengths of C, without meaning here
    }
    conversion.type = take();
    return conversion;
  }

  void convert() {
    const Conversion conversion = read_conversion();
    switch (conversion.type) {
      case 's':
      case 'r':
      case 'a':
        add_text(conversion, text_of(conversion, next_value()));
        return;
      case 'c':
        add_text(conversion, char_of(next_value()));
        return;
      case 'd':
      case 'i':
      case 'u':
      case 'o':
      case 'x':
      case 'X':
        add_integer(conversion, next_value());
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        add_real(conversion, next_value());
        return;
      default:
        value_error(fmt::format("unsupported format character '{}'", conversion.type));
    }
  }

  std::string text_of(const Conversion &conversion, const Value &value) const {
    const bool is_safe = conversion.type == 's' && value.is_markup();
    const std::string text = conversion.type == 's'   ? print(value)
                             : conversion.type == 'r' ? repr(value)
                                                      : repr_ascii(value);
    return escapes_ && !is_safe ? escape_html(text) : text;
  }

  static std::string char_of(const Value &value) {
    if (const std::string *text = value.as_string()) {
      if (n_chars(*text) == 1) return *text;
      type_error("%c requires int or char");
    }
    const auto code = value.as_integer();
    if (!code) type_error("%c requires int or char");
    if (*code < 0 || *code > 0x10FFFF || (*code >= 0xD800 && *code < 0xE000)) {
      throw RenderError(Fault::overflow, "%c arg not in range(0x110000)");
    }
    return to_utf8(static_cast<char32_t>(*code));
  }

  void add_text(const Conversion &conversion, const std::string &text) {
    const std::string_view kept = conversion.precision && conversion.type != 'c'
                                      ? first_chars(text, *conversion.precision)
                                      : std::string_view(text);
    out_ += pad(kept, conversion.width, conversion.left ? '<' : '>', " ");
  }

  void add_number(const Conversion &conversion, bool is_negative, std::string_view prefix,
                  const std::string &digits) {
    std::string front = is_negative ? "-" : conversion.plus ? "+" : conversion.blank ? " " : "";
    front += prefix;
    if (conversion.zero && !conversion.left) {
      const Int width = conversion.width - static_cast<Int>(front.size());
      out_ += front + pad(digits, width, '>', "0");
    } else {
      out_ += pad(front + digits, conversion.width, conversion.left ? '<' : '>', " ");
    }
  }

  void add_integer(const Conversion &conversion, const Value &value) {
    const char type = conversion.type;
    const bool is_decimal = type == 'd' || type == 'i' || type == 'u';
    std::optional<Int> integer = value.as_integer();
    if (!integer && is_decimal && value.as_real() != nullptr) integer = truncate(*value.as_real());
    if (!integer) {
      refuse_undefined(value);
      type_error(fmt::format("%{} format: {} is required, not {}", type,
                             is_decimal ? "a real number" : "an integer", value.type_name()));
    }
    const std::string digits = print_digits(*integer, is_decimal ? 'd' : type);
    const std::string_view prefix = !conversion.alternative || is_decimal ? ""
                                    : type == 'o'                         ? "0o"
                                    : type == 'x'                         ? "0x"
                                                                          : "0X";
    add_number(conversion, *integer < 0, prefix,
               pad(digits, conversion.precision.value_or(0), '>', "0"));
  }

  void add_real(const Conversion &conversion, const Value &value) {
    const auto integer = value.as_integer();
    if (!integer && value.as_real() == nullptr) {
      refuse_undefined(value);
      type_error(fmt::format("must be real number, not {}", value.type_name()));
    }
    const double number = integer ? static_cast<double>(*integer) : *value.as_real();
    add_number(conversion, std::signbit(number) && !std::isnan(number), "",
               print_magnitude(number, conversion.type, conversion.precision.value_or(6),
                               conversion.alternative));
  }

  std::string_view rest_;
  const Value &values_;
  bool escapes_;
  std::string out_;
  size_t n_used_ = 0;
  bool has_key_ = false;
  std::optional<Value> key_value_;
};

}  // namespace

std::string print_formatted(std::string_view format, const Value &values, bool escapes) {
  return Formatter(format, values, escapes).run();
}

}  // namespace patchbay::jinja
