#include "jinja/case.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "base/utf8.h"
#include "jinja/case_tables.h"
#include "jinja/chars.h"
#include "jinja/text.h"

namespace patchbay::jinja {

namespace {

constexpr char32_t k_capital_sigma = 0x3A3;
constexpr char32_t k_final_sigma = 0x3C2;
constexpr char32_t k_sigma = 0x3C3;

std::u32string decoded(std::string_view text) {
  std::u32string chars;
  for (size_t pos = 0; pos < text.size();) chars.push_back(next_char(text, pos));
  return chars;
}

template <size_t n>
char32_t moved(const CaseRange (&ranges)[n], char32_t c) {
  const auto *at = std::partition_point(std::begin(ranges), std::end(ranges),
                                        [&](const CaseRange &range) { return range.last < c; });
  // Runs of every other code point lie between one another, so the one after may be meant as well.
  for (; at != std::end(ranges) && at->first <= c; ++at) {
    if ((c - at->first) % static_cast<char32_t>(at->step) == 0) {
      return static_cast<char32_t>(static_cast<int>(c) + at->difference);
    }
  }
  return c;
}

template <size_t n>
const char *find_string(const CaseString (&strings)[n], char32_t c) {
  const auto *at = std::find_if(std::begin(strings), std::end(strings),
                                [&](const CaseString &entry) { return entry.from == c; });
  return at == std::end(strings) ? nullptr : at->to;
}

void add_upper(std::string &out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const char *text = find_string(k_upper_strings, c)) {
    out += text;
  } else {
    out += to_utf8(moved(k_upper_ranges, c));
  }
}

void add_title(std::string &out, char32_t c) {
  const char *text = c < 0x80 ? nullptr : find_string(k_title_strings, c);
  if (text != nullptr) {
    out += text;
  } else {
    add_upper(out, c);
  }
}

/// Unicode's condition Final_Sigma: behind a letter and before none.
bool is_final_sigma(const std::u32string &chars, size_t at) {
  const auto is_ignorable = [](char32_t c) { return is_in(CharClass::case_ignorable, c); };
  const auto before = std::find_if_not(chars.rbegin() + static_cast<ptrdiff_t>(chars.size() - at),
                                       chars.rend(), is_ignorable);
  const auto after =
      std::find_if_not(chars.begin() + static_cast<ptrdiff_t>(at + 1), chars.end(), is_ignorable);
  return before != chars.rend() && is_in(CharClass::cased, *before) &&
         (after == chars.end() || !is_in(CharClass::cased, *after));
}

void add_lower(std::string &out, const std::u32string &chars, size_t at) {
  const char32_t c = chars[at];
  if (c < 0x80) {
    out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == k_capital_sigma) {
    out += to_utf8(is_final_sigma(chars, at) ? k_final_sigma : k_sigma);
  } else if (const char *text = find_string(k_lower_strings, c)) {
    out += text;
  } else {
    out += to_utf8(moved(k_lower_ranges, c));
  }
}

bool is_cased_as(std::string_view text, CharClass wanted, CharClass unwanted) {
  bool has_case = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    if (is_in(unwanted, c) || is_in(CharClass::title, c)) return false;
    has_case = has_case || is_in(wanted, c);
  }
  return has_case;
}

}  // namespace

std::string upper(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) add_upper(out, next_char(text, pos));
  return out;
}

std::string lower(std::string_view text) {
  const std::u32string chars = decoded(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) add_lower(out, chars, i);
  return out;
}

std::string capitalize(std::string_view text) {
  const std::u32string chars = decoded(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (i == 0) {
      add_title(out, chars[i]);
    } else {
      add_lower(out, chars, i);
    }
  }
  return out;
}

std::string title(std::string_view text) {
  const std::u32string chars = decoded(text);
  std::string out;
  bool in_word = false;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (in_word) {
      add_lower(out, chars, i);
    } else {
      add_title(out, chars[i]);
    }
    in_word = is_in(CharClass::cased, chars[i]);
  }
  return out;
}

std::string swapcase(std::string_view text) {
  const std::u32string chars = decoded(text);
  std::string out;
  for (size_t i = 0; i < chars.size(); ++i) {
    if (is_in(CharClass::upper, chars[i])) {
      add_lower(out, chars, i);
    } else if (is_in(CharClass::lower, chars[i])) {
      add_upper(out, chars[i]);
    } else {
      out += to_utf8(chars[i]);
    }
  }
  return out;
}

bool is_lower(std::string_view text) {
  return is_cased_as(text, CharClass::lower, CharClass::upper);
}

bool is_upper(std::string_view text) {
  return is_cased_as(text, CharClass::upper, CharClass::lower);
}

bool is_title(std::string_view text) {
  bool has_case = false;
  bool in_word = false;
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = next_char(text, pos);
    const bool is_capital = is_in(CharClass::upper, c) || is_in(CharClass::title, c);
    const bool is_small = is_in(CharClass::lower, c);
    if ((is_capital && in_word) || (is_small && !in_word)) return false;
    in_word = is_capital || is_small;
    has_case = has_case || in_word;
  }
  return has_case;
}

}  // namespace patchbay::jinja
