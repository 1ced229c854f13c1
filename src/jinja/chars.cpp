#include "jinja/chars.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/pcre2.h"
#include "base/utf8.h"
#include "jinja/case_tables.h"

namespace patchbay::jinja {

namespace {

// In the order of CharClass.
constexpr std::array<std::string_view, 11> k_patterns{
    R"(\p{L})",         R"(\p{Nd})",        R"(\p{N})",           R"(\p{Lowercase})",
    R"(\p{Uppercase})", R"(\p{Lt})",        R"(\p{Cased})",       R"(\p{Case_Ignorable})",
    R"([^\p{C}\p{Z}])", R"(\p{XID_Start})", R"(\p{XID_Continue})"};

class Matcher {
 public:
  explicit Matcher(std::string_view pattern) {
    auto compiled = compile_pattern(pattern, PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED);
    if (compiled.code == nullptr) throw std::logic_error(compiled.error);
    code_ = std::move(compiled.code);
  }

  [[nodiscard]] bool match(std::string_view text) const {
    const Pcre2Ptr<pcre2_match_data> data(pcre2_match_data_create(1, nullptr));
    return pcre2_match(code_.get(), pcre2_subject(text), text.size(), 0, PCRE2_NO_UTF_CHECK,
                       data.get(), nullptr) > 0;
  }

 private:
  Pcre2Ptr<pcre2_code> code_;
};

const Matcher &matcher_of(CharClass char_class) {
  static const std::vector<Matcher> matchers(k_patterns.begin(), k_patterns.end());
  return matchers[static_cast<size_t>(char_class)];
}

bool is_in_ascii(CharClass char_class, char32_t c) {
  const bool lower = c >= 'a' && c <= 'z';
  const bool upper = c >= 'A' && c <= 'Z';
  switch (char_class) {
    case CharClass::alphabetic:
    case CharClass::cased:
      return lower || upper;
    case CharClass::decimal:
    case CharClass::numeric:
      return c >= '0' && c <= '9';
    case CharClass::lower:
      return lower;
    case CharClass::upper:
      return upper;
    case CharClass::title:
      return false;
    case CharClass::case_ignorable:
      return c == '\'' || c == '.' || c == ':' || c == '^' || c == '`';
    case CharClass::printable:
      return c >= ' ' && c < 0x7F;
    case CharClass::name_start:
      return lower || upper;
    case CharClass::name_part:
      return lower || upper || c == '_' || (c >= '0' && c <= '9');
  }
  return false;
}

}  // namespace

bool is_in(CharClass char_class, char32_t c) {
  if (c < 0x80) return is_in_ascii(char_class, c);
  return matcher_of(char_class).match(to_utf8(c));
}

bool is_digit(char32_t c) {
  return is_in(CharClass::decimal, c) ||
         std::any_of(std::begin(k_digit_ranges), std::end(k_digit_ranges),
                     [&](const CharRange &range) { return c >= range.first && c <= range.last; });
}

}  // namespace patchbay::jinja
