#include "grammar/json_pattern.h"

#include <fmt/format.h>

#include <optional>

#include "base/utf8.h"
#include "grammar/text_cursor.h"

namespace patchbay {
namespace {

using grammar::Expr;

// Groups within groups; reading and destroying them recurse.
constexpr int k_most_depth = 50;

CharSet digits() { return {{'0', '9'}}; }
CharSet word_chars() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharSet ascii_but(const CharSet &chars) { return chars.complement().intersection({{0, 0x7F}}); }
/// What ECMA-262 and Python both take for a blank, and what neither does.
CharSet blanks() {
  return {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
          {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
}
CharSet no_blanks() {
  CharSet all = blanks();
  all.add({{0x1C, 0x1F}, {0x85, 0x85}, {0xFEFF, 0xFEFF}});
  return all.complement();
}
CharSet all_but_line_ends() {
  return CharSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement();
}

class PatternParser : TextCursor {
 public:
  explicit PatternParser(std::string_view pattern) : TextCursor(pattern) {}

  Expr parse() {
    Expr expr = parse_choice(0);
    if (!at_end()) refuse(") closes no group");
    return expr;
  }

 private:
  Expr parse_choice(int depth) {
    if (depth > k_most_depth) refuse(fmt::format("groups are more than {} deep", k_most_depth));
    std::vector<Expr> parts;
    do {
      parts.push_back(parse_series(depth));
    } while (take("|"));
    return grammar::choice(std::move(parts));
  }

  /// One alternative. Outside of groups it may lie anywhere in the text where no anchor holds it.
  Expr parse_series(int depth) {
    const auto anything = [] { return grammar::repeat(grammar::chars(CharSet::all()), 0); };
    std::vector<Expr> parts;
    if (depth == 0 && !take("^")) parts.push_back(anything());
    bool is_held = false;
    while (!at_end() && !next_is("|") && !next_is(")")) {
      if (is_held || (depth > 0 && next_is("$"))) refuse("$ is supported at the end only");
      if (next_is("^")) refuse("^ is supported at the beginning only");
      if (take("$")) {
        is_held = true;
        continue;
      }
      parts.push_back(parse_repetition(parse_part(depth)));
    }
    if (depth == 0 && !is_held) parts.push_back(anything());
    return grammar::series(std::move(parts));
  }

  Expr parse_part(int depth) {
    const size_t begin = pos_;
    if (take("(")) return parse_group(begin, depth);
    if (take("[")) return grammar::chars(parse_class(begin));
    if (take(".")) return grammar::chars(all_but_line_ends());
    if (next_is("\\")) return grammar::chars(parse_escape(/*in_class=*/false));
    for (const char *mark : {"*", "+", "?", "{"}) {
      if (next_is(mark)) refuse(fmt::format("there is nothing that {} could repeat", mark));
    }
    const char32_t c = take_char();
    return grammar::chars({{c, c}});
  }

  Expr parse_group(size_t begin, int depth) {
    if (take("?")) parse_group_kind(begin);
    Expr inner = parse_choice(depth + 1);
    if (!take(")")) refuse_at(begin, "this group is not closed");
    return inner;
  }

  void parse_group_kind(size_t begin) {
    if (take(":")) return;
    for (const char *look : {"=", "!", "<=", "<!"}) {
      if (next_is(look))
        refuse_at(begin, fmt::format("lookaround (?{}...) is not supported", look));
    }
    if (!take("<") && !take("P<"))
      refuse_at(begin, "groups that begin like this are not supported");
    const size_t end = text_.find('>', pos_);
    if (end == std::string_view::npos) refuse_at(begin, "this group's name is not closed");
    pos_ = end + 1;
  }

  Expr parse_repetition(Expr part) {
    const size_t begin = pos_;
    if (take("*")) {
      part = grammar::repeat(std::move(part), 0);
    } else if (take("+")) {
      part = grammar::repeat(std::move(part), 1);
    } else if (take("?")) {
      part = grammar::optional(std::move(part));
    } else if (take("{")) {
      part = parse_counts(std::move(part), begin);
    } else {
      return part;
    }
    (void)take("?");  // the same texts, whichever way they are found
    for (const char *mark : {"*", "+", "?", "{"}) {
      if (next_is(mark)) refuse("a repetition of a repetition needs a group");
    }
    return part;
  }

  Expr parse_counts(Expr part, size_t begin) {
    const uint32_t n_min = parse_count(begin);
    uint32_t n_max = n_min;
    if (take(",")) n_max = next_is("}") ? grammar::k_unbounded : parse_count(begin);
    if (!take("}")) refuse_at(begin, "{ is supported as {n}, {n,} and {n,m} only");
    if (n_max < n_min) refuse_at(begin, fmt::format("{{{},{}}} has no number", n_min, n_max));
    return grammar::repeat(std::move(part), n_min, n_max);
  }

  uint32_t parse_count(size_t begin) {
    constexpr uint32_t k_most = 100'000;
    uint32_t count = 0;
    const size_t first = pos_;
    while (!at_end() && text_[pos_] >= '0' && text_[pos_] <= '9') {
      count = count * 10 + static_cast<uint32_t>(text_[pos_++] - '0');
      if (count > k_most)
        refuse_at(begin, fmt::format("a repetition may count to {} at most", k_most));
    }
    if (pos_ == first) refuse_at(begin, "{ is supported as {n}, {n,} and {n,m} only");
    return count;
  }

  CharSet parse_class(size_t begin) {
    const bool is_negated = take("^");
    if (next_is("]")) refuse_at(begin, "a class that begins with ] is read in different ways");
    in_negated_ = is_negated;
    CharSet chars;
    while (!take("]")) {
      const CharSet first = parse_class_item(begin);
      if (!next_is("-") || next_is("-]")) {
        chars.add(first);
        continue;
      }
      const size_t dash = pos_++;
      const CharSet last = parse_class_item(begin);
      if (!is_one(first) || !is_one(last)) refuse_at(dash, "this range has no first or last");
      if (last.ranges()[0].first < first.ranges()[0].first)
        refuse_at(dash, "this range ends before it begins");
      chars.add(first.ranges()[0].first, last.ranges()[0].first);
    }
    if (is_negated) chars = has_ascii_escape_ ? ascii_but(chars) : chars.complement();
    in_negated_ = false;
    has_ascii_escape_ = false;
    if (chars.empty()) refuse_at(begin, "no character is of this class");
    return chars;
  }

  static bool is_one(const CharSet &chars) {
    return chars.ranges().size() == 1 && chars.ranges()[0].first == chars.ranges()[0].last;
  }

  CharSet parse_class_item(size_t begin) {
    if (at_end()) refuse_at(begin, "this class is not closed");
    if (next_is("\\")) return parse_escape(/*in_class=*/true);
    const char32_t c = take_char();
    return {{c, c}};
  }

  CharSet parse_escape(bool in_class) {
    const size_t begin = pos_++;
    if (at_end()) refuse_at(begin, "the escape ends early");
    const char c = text_[pos_];
    if (auto chars = class_escape(c)) {
      if (in_negated_ && (c == 'D' || c == 'W' || c == 'S'))
        refuse_at(begin, fmt::format("\\{} in a negated class is not supported", c));
      ++pos_;
      has_ascii_escape_ |= in_class && (c == 'd' || c == 'w');
      return *chars;
    }
    const char32_t one = parse_char_escape(begin, in_class);
    return {{one, one}};
  }

  [[nodiscard]] std::optional<CharSet> class_escape(char c) const {
    switch (c) {
      case 'd':
        return digits();
      case 'D':
        return ascii_but(digits());
      case 'w':
        return word_chars();
      case 'W':
        return ascii_but(word_chars());
      case 's':
        return in_negated_ ? no_blanks().complement() : blanks();
      case 'S':
        return no_blanks();
      default:
        return std::nullopt;
    }
  }

  char32_t parse_char_escape(size_t begin, bool in_class) {
    const char c = text_[pos_];
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_letter && !is_digit) return take_char();
    ++pos_;
    switch (c) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'v':
        return '\v';
      case 'f':
        return '\f';
      case 'r':
        return '\r';
      case 'x':
        return parse_hex(begin, 2);
      case 'u':
        return parse_hex(begin, 4);
      case 'b':
        if (in_class) return '\b';
        refuse_at(begin, "word boundaries are not supported");
      case 'B':
        refuse_at(begin, "word boundaries are not supported");
      case 'p':
      case 'P':
        refuse_at(begin, "classes by property are not supported");
      default:
        refuse_at(begin, is_digit || c == 'k' ? "back references are not supported"
                                              : "this escape is not supported");
    }
  }

  char32_t parse_hex(size_t begin, int n_digits) {
    char32_t code_point = 0;
    for (int i = 0; i < n_digits; ++i) {
      constexpr std::string_view k_digits = "0123456789abcdef";
      const char c = at_end() ? '\0' : text_[pos_];
      const size_t digit = k_digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos)
        refuse_at(begin, fmt::format("the escape wants {} hexadecimal digits", n_digits));
      code_point = code_point * 16 + static_cast<char32_t>(digit);
      ++pos_;
    }
    if (code_point >= 0xD800 && code_point <= 0xDFFF)
      refuse_at(begin, fmt::format("U+{:04X} is no character", static_cast<uint32_t>(code_point)));
    return code_point;
  }

  char32_t take_char() {
    const char32_t c = code_point_at(text_, pos_);
    pos_ += utf8_size_at(text_, pos_);
    return c;
  }

  bool in_negated_ = false;        // class
  bool has_ascii_escape_ = false;  // the class being read has \d or \w
};

}  // namespace

Expected<CharNetwork> parse_pattern(std::string_view pattern) {
  const auto refuse = [](std::string problem) {
    return fail(ErrorCode::invalid_argument, std::move(problem));
  };
  try {
    auto network = make_char_network(PatternParser(pattern).parse());
    if (!network) return refuse("the pattern is too large");
    return *std::move(network);
  } catch (const TextRefusal &refusal) {
    return refuse(fmt::format("byte {}: {}", refusal.pos + 1, refusal.problem));
  }
}

}  // namespace patchbay
