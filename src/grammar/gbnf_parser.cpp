#include "grammar/gbnf_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/utf8.h"
#include "grammar/text_cursor.h"

namespace patchbay {
namespace {

using grammar::Expr;

constexpr size_t k_most_bytes = size_t{1} << 20U;
// Groups within groups; reading, laying out and destroying them recurse.
constexpr int k_most_depth = 100;
// Repetitions of repetitions of one part.
constexpr int k_most_nested = 4;
constexpr const char *k_schema_rule = "json_schema";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

std::string at_line_and_column(std::string_view text, size_t pos) {
  const std::string_view before = text.substr(0, pos);
  const auto line = std::ranges::count(before, '\n') + 1;
  const std::string_view in_line = before.substr(before.rfind('\n') + 1);
  const auto column =
      std::ranges::count_if(in_line,
                            [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }) +
      1;
  return fmt::format("line {}, column {}", line, column);
}

class GbnfParser : TextCursor {
 public:
  explicit GbnfParser(std::string_view text) : TextCursor(text) {}
  GbnfParser(std::string_view text, grammar::Rules schema)
      : TextCursor(text), rules_(std::move(schema)) {
    known_[k_schema_rule] = {.rule = rules_.root, .is_defined = true};
  }

  grammar::Rules parse() {
    skip_blanks(/*over_lines=*/true);
    while (!at_end()) parse_rule();
    for (const auto &[name, known] : known_) {
      if (!known.is_defined)
        refuse_at(known.first_use, fmt::format("rule {} is not defined", name));
      if (!known.is_used && name == k_schema_rule)
        refuse_at(0, fmt::format("no rule uses {}, which is given", name));
    }
    const auto root = known_.find("root");
    if (root == known_.end()) refuse_at(0, "there is no rule root");
    rules_.root = root->second.rule;
    return std::move(rules_);
  }

 private:
  struct Known {
    uint32_t rule = 0;
    size_t first_use = 0;
    bool is_defined = false;
    bool is_used = false;
  };

  /// Blanks and comments; line ends only if `over_lines`.
  void skip_blanks(bool over_lines) {
    while (!at_end()) {
      const char c = text_[pos_];
      if (c == '#') {
        pos_ = std::min(text_.find('\n', pos_), text_.size());
      } else if (c == ' ' || c == '\t' || (over_lines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else {
        return;
      }
    }
  }

  /// After a rule's alternative: whether the next line goes on with another.
  bool next_line_goes_on() {
    const size_t here = pos_;
    skip_blanks(/*over_lines=*/true);
    if (next_is("|")) return true;
    pos_ = here;
    return false;
  }

  std::string parse_name(const char *wanted) {
    const size_t begin = pos_;
    while (!at_end() && is_name_char(text_[pos_])) ++pos_;
    if (pos_ == begin) refuse(fmt::format("{} is missing", wanted));
    return std::string(text_.substr(begin, pos_ - begin));
  }

  Known &rule_of(const std::string &name, size_t pos) {
    const auto [known, is_new] = known_.try_emplace(
        name, Known{.rule = static_cast<uint32_t>(rules_.rules.size()), .first_use = pos});
    if (is_new) rules_.rules.push_back({.name = name, .expr = {}});
    return known->second;
  }

  void parse_rule() {
    const size_t begin = pos_;
    const std::string name = parse_name("the name of a rule");
    Known &known = rule_of(name, begin);
    if (known.is_defined) refuse_at(begin, fmt::format("rule {} is defined twice", name));
    known.is_defined = true;
    const uint32_t rule = known.rule;
    skip_blanks(/*over_lines=*/false);
    if (!take("::=")) refuse(fmt::format("::= is missing after {}", name));
    skip_blanks(/*over_lines=*/true);
    Expr expr = parse_choice(0);
    if (!at_end() && text_[pos_] != '\n' && text_[pos_] != '\r') {
      refuse(next_is(")") ? ") closes no group"
                          : fmt::format("'{}' is not expected here", next_char()));
    }
    rules_.rules[rule].expr = std::move(expr);
    skip_blanks(/*over_lines=*/true);
  }

  [[nodiscard]] std::string next_char() const {
    return std::string(text_.substr(pos_, utf8_size_at(text_, pos_)));
  }

  Expr parse_choice(int depth) {
    if (depth > k_most_depth) refuse(fmt::format("groups are more than {} deep", k_most_depth));
    std::vector<Expr> parts;
    parts.push_back(parse_series(depth));
    while (next_is("|") || (depth == 0 && next_line_goes_on())) {
      ++pos_;
      skip_blanks(/*over_lines=*/true);
      parts.push_back(parse_series(depth));
    }
    return parts.size() == 1 ? std::move(parts.front()) : grammar::choice(std::move(parts));
  }

  Expr parse_series(int depth) {
    std::vector<Expr> parts;
    while (auto part = parse_part(depth)) {
      skip_blanks(depth > 0);
      parts.push_back(std::move(*part));
    }
    return parts.size() == 1 ? std::move(parts.front()) : grammar::series(std::move(parts));
  }

  std::optional<Expr> parse_part(int depth) {
    if (at_end()) return std::nullopt;
    const size_t begin = pos_;
    std::optional<Expr> part;
    if (take("\"")) {
      part = parse_literal(begin);
    } else if (take("[")) {
      part = parse_class(begin);
    } else if (take(".")) {
      part = grammar::chars(CharSet::all());
    } else if (take("(")) {
      part = parse_group(begin, depth);
    } else if (is_name_char(text_[pos_])) {
      const std::string name = parse_name("a name");
      Known &known = rule_of(name, begin);
      known.is_used = true;
      part = grammar::call(known.rule);
    } else if (next_is("<") || next_is("!<")) {
      refuse("tokens by name or number (<...>) are not supported");
    } else if (next_is("*") || next_is("+") || next_is("?") || next_is("{")) {
      refuse(fmt::format("there is nothing that {} could repeat", next_char()));
    } else {
      return std::nullopt;
    }
    return parse_repetitions(std::move(*part), depth);
  }

  Expr parse_group(size_t begin, int depth) {
    skip_blanks(/*over_lines=*/true);
    Expr inner = parse_choice(depth + 1);
    if (!take(")")) {
      if (at_end()) refuse_at(begin, "this group is not closed");
      refuse(fmt::format("'{}' is not expected here", next_char()));
    }
    return inner;
  }

  Expr parse_repetitions(Expr part, int depth) {
    for (int n_nested = 0;; ++n_nested) {
      const size_t here = pos_;
      skip_blanks(depth > 0);
      if (n_nested > k_most_nested) refuse("there are too many repetitions of repetitions");
      if (take("*")) {
        part = grammar::repeat(std::move(part), 0);
      } else if (take("+")) {
        part = grammar::repeat(std::move(part), 1);
      } else if (take("?")) {
        part = grammar::optional(std::move(part));
      } else if (take("{")) {
        part = parse_counts(std::move(part));
      } else {
        pos_ = here;
        return part;
      }
    }
  }

  Expr parse_counts(Expr part) {
    skip_blanks(/*over_lines=*/false);
    const size_t begin = pos_;
    const uint32_t n_min = parse_count();
    uint32_t n_max = n_min;
    skip_blanks(/*over_lines=*/false);
    if (take(",")) {
      skip_blanks(/*over_lines=*/false);
      n_max = next_is("}") ? grammar::k_unbounded : parse_count();
      skip_blanks(/*over_lines=*/false);
    }
    if (!take("}")) refuse("} is missing");
    if (n_max < n_min) refuse_at(begin, fmt::format("{{{},{}}} has no number", n_min, n_max));
    return grammar::repeat(std::move(part), n_min, n_max);
  }

  uint32_t parse_count() {
    constexpr uint32_t k_most = 1'000'000;
    const size_t begin = pos_;
    uint32_t count = 0;
    while (!at_end() && text_[pos_] >= '0' && text_[pos_] <= '9') {
      count = count * 10 + static_cast<uint32_t>(text_[pos_++] - '0');
      if (count > k_most)
        refuse_at(begin, fmt::format("a repetition may count to {} at most", k_most));
    }
    if (pos_ == begin) refuse("a number is missing");
    return count;
  }

  Expr parse_literal(size_t begin) {
    std::string literal;
    while (!take("\"")) {
      if (at_end() || next_is("\n")) refuse_at(begin, "this literal is not closed");
      literal += to_utf8(parse_char());
    }
    return grammar::text(std::move(literal));
  }

  Expr parse_class(size_t begin) {
    const bool is_negated = take("^");
    CharSet chars;
    while (!take("]")) {
      if (at_end() || next_is("\n")) refuse_at(begin, "this class is not closed");
      const size_t range_begin = pos_;
      const char32_t first = parse_char();
      char32_t last = first;
      if (next_is("-") && !next_is("-]")) {
        ++pos_;
        if (at_end() || next_is("\n")) refuse_at(begin, "this class is not closed");
        last = parse_char();
      }
      if (last < first) refuse_at(range_begin, "this range ends before it begins");
      chars.add(first, last);
    }
    if (is_negated) chars = chars.complement();
    if (chars.empty()) refuse_at(begin, "no character is of this class");
    return grammar::chars(std::move(chars));
  }

  /// One character of a literal or class, maybe escaped.
  char32_t parse_char() {
    const size_t begin = pos_;
    if (!take("\\")) {
      pos_ += utf8_size_at(text_, pos_);
      return code_point_at(text_, begin);
    }
    if (at_end()) refuse_at(begin, "the escape ends early");
    switch (const char c = text_[pos_++]) {
      case 'x':
        return parse_hex(begin, 2);
      case 'u':
        return parse_hex(begin, 4);
      case 'U':
        return parse_hex(begin, 8);
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        refuse_at(begin, "this escape is not known");
    }
  }

  char32_t parse_hex(size_t begin, int n_digits) {
    uint64_t code_point = 0;
    for (int i = 0; i < n_digits; ++i) {
      constexpr std::string_view k_digits = "0123456789abcdef";
      const char c = at_end() ? '\0' : text_[pos_];
      const size_t digit = k_digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit == std::string_view::npos)
        refuse_at(begin, fmt::format("the escape wants {} hexadecimal digits", n_digits));
      code_point = code_point * 16 + digit;
      ++pos_;
    }
    if (code_point > CharSet::k_last || (code_point >= 0xD800 && code_point <= 0xDFFF))
      refuse_at(begin, fmt::format("U+{:04X} is no character", code_point));
    return static_cast<char32_t>(code_point);
  }

  grammar::Rules rules_;
  std::map<std::string, Known> known_;
};

Expected<grammar::Rules> parse(std::string_view text, std::optional<grammar::Rules> schema) {
  const auto refuse = [](const std::string &problem) {
    return fail(ErrorCode::invalid_argument, "grammar: " + problem);
  };
  if (text.size() > k_most_bytes)
    return refuse(fmt::format("it has {} bytes, more than {}", text.size(), k_most_bytes));
  if (!is_valid_utf8(text)) return refuse("it is not valid UTF-8");
  try {
    return schema ? GbnfParser(text, *std::move(schema)).parse() : GbnfParser(text).parse();
  } catch (const TextRefusal &refusal) {
    return refuse(fmt::format("{}: {}", at_line_and_column(text, refusal.pos), refusal.problem));
  }
}

}  // namespace

Expected<grammar::Rules> parse_gbnf(std::string_view text) { return parse(text, std::nullopt); }

Expected<grammar::Rules> parse_gbnf_over_schema(std::string_view text, grammar::Rules schema) {
  return parse(text, std::move(schema));
}

}  // namespace patchbay
