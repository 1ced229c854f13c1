#include "jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "jinja/chars.h"
#include "jinja/error.h"
#include "jinja/number.h"
#include "jinja/string_literal.h"
#include "jinja/syntax_error.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

bool is_digit_char(char c) { return c >= '0' && c <= '9'; }

// Longer ones first.
constexpr std::array<std::string_view, 26> k_operators{
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
    "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};

/// Line breaks as "\n", and without the last one.
std::string normalized(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalized(source)) {}

  std::vector<Token> run() {
    while (pos_ < source_.size()) read_data();
    add(TokenKind::end);
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return std::string_view(source_).substr(pos_); }

  [[nodiscard]] bool at(std::string_view text) const { return rest().starts_with(text); }

  [[noreturn]] void refuse(const std::string &message) const { throw SyntaxError(line_, message); }

  void add(TokenKind kind, std::string text = {}) {
    tokens_.push_back({.kind = kind, .line = line_, .text = std::move(text)});
  }

  /// Moves on by `n` bytes and counts their lines.
  void skip(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(pos_),
                                         source_.begin() + static_cast<ptrdiff_t>(pos_ + n), '\n'));
    pos_ += n;
  }

  void skip_space() {
    const auto text = rest();
    skip(text.size() - strip(text, {.left = true, .right = false}).size());
  }

  /// The sign of whitespace control behind an opening brace.
  char take_sign() {
    if (!at("-") && !at("+")) return 0;
    return source_[pos_++];
  }

  /// Text as it stands before a tag. `line_starts`: whether it begins a line.
  static std::string_view trimmed(std::string_view text, char sign, bool is_variable,
                                  bool line_starts) {
    if (sign == '-') return strip(text, {.left = false, .right = true});
    if (sign == '+' || is_variable) return text;
    const size_t line = text.rfind('\n') + 1;  // 0 when there is no line break
    if (line == 0 && !line_starts) return text;
    return strip(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  void add_data(std::string_view text, size_t n_source) {
    if (!text.empty()) add(TokenKind::data, std::string(text));
    skip(n_source);
  }

  /// Text up to the next tag, and the tag.
  void read_data() {
    const bool line_starts = pos_ == 0 || source_[pos_ - 1] == '\n';
    size_t n = rest().find('{');
    while (n != std::string_view::npos && !is_tag(rest().substr(n))) n = rest().find('{', n + 1);
    if (n == std::string_view::npos) {
      add_data(rest(), rest().size());
      return;
    }
    const std::string_view text = rest().substr(0, n);
    const char kind = source_[pos_ + n + 1];
    const char after = pos_ + n + 2 < source_.size() ? source_[pos_ + n + 2] : '\0';
    const char sign = after == '-' || after == '+' ? after : '\0';
    add_data(trimmed(text, sign, kind == '{', line_starts), n);
    if (kind == '%' && read_raw()) return;
    const int line = line_;
    pos_ += 2;
    take_sign();
    if (kind == '#') {
      skip_comment(line);
    } else if (kind == '{') {
      add(TokenKind::variable_begin);
      read_tag(true);
    } else {
      add(TokenKind::block_begin);
      read_tag(false);
    }
  }

  static bool is_tag(std::string_view text) {
    return text.size() > 1 && (text[1] == '{' || text[1] == '%' || text[1] == '#');
  }

  /// Behind a closing "%}" or "#}": trim_blocks takes one line break, a minus all whitespace.
  void end_block(char sign) {
    if (sign == '-') {
      skip_space();
    } else if (sign != '+' && at("\n")) {
      skip(1);
    }
  }

  void skip_comment(int line) {
    const size_t n = rest().find("#}");
    if (n == std::string_view::npos) throw SyntaxError(line, "Missing end of comment tag");
    const char sign = n > 0 ? rest()[n - 1] : '\0';
    skip(n + 2);
    end_block(sign);
  }

  /// {% raw %} with all up to {% endraw %}; false when the tag is another.
  bool read_raw() {
    const size_t begin = pos_;
    const int line = line_;
    pos_ += 2;
    take_sign();
    skip_space();
    if (take_word("raw")) {
      skip_space();
      if (at("-%}")) {
        skip(3);
        skip_space();
        read_raw_text(line);
        return true;
      }
      if (at("%}")) {
        skip(2);
        read_raw_text(line);
        return true;
      }
    }
    pos_ = begin;
    line_ = line;
    return false;
  }

  bool take_word(std::string_view word) {
    if (!at(word)) return false;
    pos_ += word.size();
    return true;
  }

  void read_raw_text(int line) {
    const size_t begin = pos_;
    const int begin_line = line_;
    const bool line_starts = source_[begin - 1] == '\n';
    for (size_t end = source_.find("{%", begin); end != std::string::npos;
         end = source_.find("{%", end + 1)) {
      skip(end - pos_);
      pos_ += 2;
      const char sign = take_sign();
      skip_space();
      if (!take_word("endraw")) continue;
      skip_space();
      const char end_sign = at("-%}") || at("+%}") ? source_[pos_++] : '\0';
      if (!take_word("%}")) continue;
      const auto text = std::string_view(source_).substr(begin, end - begin);
      const auto kept = trimmed(text, sign, false, line_starts);
      if (!kept.empty()) {
        tokens_.push_back({.kind = TokenKind::data, .line = begin_line, .text = std::string(kept)});
      }
      end_block(end_sign);
      return;
    }
    throw SyntaxError(line, "Missing end of raw directive");
  }

  /// What stands inside a tag, and its end.
  void read_tag(bool is_variable) {
    std::string open;  // the closing brackets that are due
    while (true) {
      skip_space();
      if (pos_ >= source_.size()) return;  // the parser misses the end of the tag
      if (open.empty() && read_end(is_variable)) return;
      read_token(open);
    }
  }

  bool read_end(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    const bool has_sign = at("-") || (!is_variable && at("+"));
    if (!rest().substr(has_sign ? 1 : 0).starts_with(end)) return false;
    const char sign = has_sign ? source_[pos_] : '\0';
    add(is_variable ? TokenKind::variable_end : TokenKind::block_end);
    pos_ += end.size() + (has_sign ? 1 : 0);
    if (!is_variable) {
      end_block(sign);
    } else if (sign == '-') {
      skip_space();
    }
    return true;
  }

  void read_token(std::string &open) {
    const char c = source_[pos_];
    if (is_digit_char(c)) {
      read_number();
    } else if (const size_t n = n_name(rest()); n > 0) {
      size_t first = pos_;
      if (c != '_' && !is_in(CharClass::name_start, next_char(source_, first))) {
        refuse("Invalid character in identifier");
      }
      add(TokenKind::name, std::string(rest().substr(0, n)));
      pos_ += n;
    } else if (c == '"' || c == '\'') {
      read_string(c);
    } else {
      read_operator(open);
    }
  }

  /// Bytes of the name that begins `text`; 0 when there is none.
  static size_t n_name(std::string_view text) {
    size_t n = 0;
    for (size_t pos = 0; pos < text.size(); n = pos) {
      if (!is_in(CharClass::name_part, next_char(text, pos))) break;
    }
    return n;
  }

  void read_string(char quote) {
    size_t end = pos_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) refuse_char();
    const std::string_view text = std::string_view(source_).substr(pos_ + 1, end - pos_ - 1);
    try {
      add(TokenKind::string, unescape_literal(text));
    } catch (const RenderError &error) {
      refuse(error.what());
    }
    skip(end + 1 - pos_);
  }

  /// How many digits of `base` with single underscores between them begin `text`.
  static size_t n_digits(std::string_view text, int base) {
    size_t n = 0;
    const auto is_digit_at = [&](size_t i) {
      if (i >= text.size()) return false;
      const char c = static_cast<char>(text[i] | 0x20);
      return is_digit_char(text[i]) ? text[i] - '0' < base : base == 16 && c >= 'a' && c <= 'f';
    };
    while (is_digit_at(n) || (n > 0 && text[n] == '_' && is_digit_at(n + 1))) {
      ++n;
      if (n >= text.size()) break;
    }
    return n;
  }

  /// Bytes of the number with a fraction or an exponent that begins `text`; 0 when there is none.
  static size_t n_real(std::string_view text) {
    size_t n = n_digits(text, 10);
    bool is_real = false;
    if (n < text.size() && text[n] == '.') {
      const size_t n_fraction = n_digits(text.substr(n + 1), 10);
      if (n_fraction == 0) return 0;
      n += 1 + n_fraction;
      is_real = true;
    }
    if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
      size_t n_exponent = 1;
      const char sign = n + 1 < text.size() ? text[n + 1] : '\0';
      if (sign == '+' || sign == '-') ++n_exponent;
      const size_t n_more = n_digits(text.substr(std::min(n + n_exponent, text.size())), 10);
      if (n_more > 0) return n + n_exponent + n_more;
    }
    return is_real ? n : 0;
  }

  static size_t n_integer(std::string_view text) {
    if (text[0] != '0') return n_digits(text, 10);
    const char prefix = text.size() > 1 ? static_cast<char>(text[1] | 0x20) : '\0';
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (base != 0) {
      const size_t n_skip = text.substr(2).starts_with('_') ? 3 : 2;
      const size_t n = n_digits(text.substr(std::min(n_skip, text.size())), base);
      if (n > 0) return n_skip + n;
    }
    size_t n = 1;  // zeros only: "01" is two numbers
    while (n < text.size() &&
           (text[n] == '0' || (text[n] == '_' && text.substr(n + 1, 1) == "0"))) {
      ++n;
    }
    return n;
  }

  void read_number() {
    const bool after_point = pos_ > 0 && source_[pos_ - 1] == '.';
    const size_t n = after_point ? 0 : n_real(rest());
    Token token{.kind = TokenKind::real, .line = line_};
    if (n > 0) {
      token.number = Value::real(*parse_real(rest().substr(0, n)));
      pos_ += n;
    } else {
      const size_t n_whole = n_integer(rest());
      token.kind = TokenKind::integer;
      try {
        token.number = Value::integer(*parse_int(rest().substr(0, n_whole), 0));
      } catch (const RenderError &error) {
        refuse(error.what());
      }
      pos_ += n_whole;
    }
    tokens_.push_back(std::move(token));
  }

  void read_operator(std::string &open) {
    const auto *const op = std::find_if(k_operators.begin(), k_operators.end(),
                                        [&](std::string_view text) { return at(text); });
    if (op == k_operators.end()) refuse_char();
    balance((*op)[0], open);
    add(TokenKind::op, std::string(*op));
    pos_ += op->size();
  }

  void balance(char c, std::string &open) const {
    constexpr std::string_view k_opening = "{([";
    constexpr std::string_view k_closing = "})]";
    if (const size_t i = k_opening.find(c); i != std::string_view::npos) {
      open += k_closing[i];
      return;
    }
    if (k_closing.find(c) == std::string_view::npos) return;
    if (open.empty()) refuse(fmt::format("unexpected '{}'", c));
    if (open.back() != c) refuse(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
    open.pop_back();
  }

  [[noreturn]] void refuse_char() const {
    const size_t size = utf8_size_at(source_, pos_);
    refuse(fmt::format("unexpected char '{}'", rest().substr(0, size)));
  }

  std::string source_;
  size_t pos_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize_template(std::string_view source) { return Lexer(source).run(); }

}  // namespace patchbay::jinja
