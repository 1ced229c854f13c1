#include "apps/flat_toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace patchbay {
namespace {

bool is_bare(char c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

void append_utf8(std::string &text, uint32_t code) {
  const auto byte = [&](uint32_t bits) { text += static_cast<char>(bits); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | code >> 6U);
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12U);
    byte(0x80 | (code >> 6U & 0x3FU));
  } else {
    byte(0xF0 | code >> 18U);
    byte(0x80 | (code >> 12U & 0x3FU));
    byte(0x80 | (code >> 6U & 0x3FU));
  }
  byte(0x80 | (code & 0x3FU));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  std::map<std::string, std::vector<std::string>> read() {
    std::map<std::string, std::vector<std::string>> values;
    for (skip(/*over_lines=*/true); !rest_.empty(); skip(true)) {
      if (rest_.front() == '[') fail("is a table, and there are none");
      const std::string key = read_key();
      skip(false);
      if (!take('=')) fail("wants '=' behind its key");
      skip(false);
      auto list = rest_.starts_with('[') ? read_array() : std::vector{read_scalar()};
      skip(false);
      if (!rest_.empty() && rest_.front() != '\n') fail("goes on behind its value");
      if (!values.emplace(key, std::move(list)).second)
        fail(fmt::format("says {} a second time", key));
    }
    return values;
  }

 private:
  [[noreturn]] void fail(const std::string &problem) const {
    throw std::invalid_argument(fmt::format("line {} {}", line_, problem));
  }

  char next() {
    const char c = rest_.front();
    if (c == '\n') ++line_;
    rest_.remove_prefix(1);
    return c;
  }

  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    next();
    return true;
  }

  /// Blanks and comments.
  void skip(bool over_lines) {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (c == ' ' || c == '\t' || c == '\r' || (over_lines && c == '\n')) {
        next();
      } else {
        return;
      }
    }
  }

  std::string read_key() {
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return read_text();
    std::string key;
    while (!rest_.empty() && is_bare(rest_.front())) key += next();
    if (key.empty()) fail("begins with no key");
    return key;
  }

  std::vector<std::string> read_array() {
    std::vector<std::string> values;
    take('[');
    while (true) {
      skip(true);
      if (take(']')) return values;
      values.push_back(read_scalar());
      skip(true);
      if (!take(',') && !rest_.starts_with(']')) fail("wants ',' or ']' in its array");
    }
  }

  std::string read_scalar() {
    if (rest_.starts_with('"') || rest_.starts_with('\'')) return read_text();
    std::string word;
    while (!rest_.empty() &&
           (is_bare(rest_.front()) || rest_.front() == '+' || rest_.front() == '.'))
      word += next();
    const bool is_truth = word == "true" || word == "false";
    const bool is_number = word.find_first_of("0123456789") != std::string::npos;
    if (!is_truth && !is_number) fail("has no value: texts stand in quotes");
    if (is_number) std::erase(word, '_');
    return word;
  }

  std::string read_text() {
    const char quote = next();
    std::string text;
    while (!rest_.empty() && rest_.front() != quote) {
      if (rest_.front() == '\n') fail("ends within a text");
      const char c = next();
      if (c == '\\' && quote == '"') {
        read_escape(text);
      } else {
        text += c;
      }
    }
    if (!take(quote)) fail("ends within a text");
    return text;
  }

  void read_escape(std::string &text) {
    constexpr std::string_view k_names = "btnfr\"\\";
    constexpr std::string_view k_meant = "\b\t\n\f\r\"\\";
    const char name = rest_.empty() ? '\n' : next();
    const size_t known = k_names.find(name);
    if (known != std::string_view::npos) {
      text += k_meant[known];
      return;
    }
    const size_t n_digits = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    uint32_t code = 0;
    const std::string_view digits = rest_.substr(0, n_digits);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    const bool is_whole = error == std::errc() && end == digits.data() + n_digits;
    const bool is_character = code < 0xD800 || (code > 0xDFFF && code <= 0x10FFFF);
    if (n_digits == 0 || !is_whole || !is_character) fail("has an escape that is none");
    rest_.remove_prefix(n_digits);
    append_utf8(text, code);
  }

  std::string_view rest_;
  int line_ = 1;
};

}  // namespace

std::map<std::string, std::vector<std::string>> parse_flat_toml(std::string_view text) {
  return Reader(text).read();
}

std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7F') {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace patchbay
