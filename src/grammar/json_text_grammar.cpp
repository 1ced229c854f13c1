#include "grammar/json_text_grammar.h"

#include <fmt/format.h>

#include <cmath>

namespace patchbay {
namespace {

using grammar::Expr;

template <class... Parts>
Expr join(Parts... parts) {
  std::vector<Expr> list;
  (list.push_back(std::move(parts)), ...);
  return grammar::series(std::move(list));
}

/// Characters that stand for themselves in a string.
CharSet plain_chars() { return CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement(); }

std::string escape(char32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
  }
}

Expr spelled(const CharSet &chars) {
  std::vector<Expr> spellings;
  CharSet plain = chars.intersection(plain_chars());
  if (!plain.empty()) spellings.push_back(grammar::chars(std::move(plain)));
  const CharSet escaped = chars.intersection(plain_chars().complement());
  for (const auto &range : escaped.ranges()) {
    for (char32_t c = range.first; c <= range.last; ++c)
      spellings.push_back(grammar::text(escape(c)));
  }
  return grammar::choice(std::move(spellings));
}

/// 1.0 is written as the integer that it is.
std::string scalar_text(const nlohmann::ordered_json &value) {
  constexpr double k_exact = 1e15;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) < k_exact && number == std::floor(number))
      return fmt::format("{}", static_cast<int64_t>(number));
  }
  return value.dump();
}

}  // namespace

Expr json_separator(char mark) {
  return join(grammar::text({mark}), grammar::optional(grammar::text(" ")));
}

Expr json_any_char() {
  const CharSet hex{{'0', '9'}, {'a', 'f'}, {'A', 'F'}};
  const auto digits = [&](uint32_t n) { return grammar::repeat(grammar::chars(hex), n, n); };
  const CharSet d{{'d', 'd'}, {'D', 'D'}};
  const CharSet high{{'8', '9'}, {'a', 'b'}, {'A', 'B'}};
  const CharSet low{{'c', 'f'}, {'C', 'F'}};
  std::vector<Expr> units;
  units.push_back(join(grammar::chars(hex.intersection(d.complement())), digits(3)));
  units.push_back(join(grammar::chars(d), grammar::chars({{'0', '7'}}), digits(2)));
  units.push_back(join(grammar::chars(d), grammar::chars(high), digits(2), grammar::text("\\u"),
                       grammar::chars(d), grammar::chars(low), digits(2)));
  std::vector<Expr> escapes;
  escapes.push_back(grammar::chars({{'"', '"'},
                                    {'\\', '\\'},
                                    {'/', '/'},
                                    {'b', 'b'},
                                    {'f', 'f'},
                                    {'n', 'n'},
                                    {'r', 'r'},
                                    {'t', 't'}}));
  escapes.push_back(join(grammar::text("u"), grammar::choice(std::move(units))));
  std::vector<Expr> spellings;
  spellings.push_back(grammar::chars(plain_chars()));
  spellings.push_back(join(grammar::text("\\"), grammar::choice(std::move(escapes))));
  return grammar::choice(std::move(spellings));
}

Expr json_string_of(const CharNetwork &network) {
  grammar::Network spelled_out{.n_nodes = network.n_nodes()};
  for (uint32_t node = 0; node < network.n_nodes(); ++node) {
    for (const auto &[to, chars] : network.edges[node]) spelled_out.add(node, to, spelled(chars));
    if (network.is_end[node]) spelled_out.ends.push_back(node);
  }
  return join(grammar::text("\""), Expr{std::move(spelled_out)}, grammar::text("\""));
}

Expr json_exact_string(const std::string &text) {
  return grammar::text(nlohmann::ordered_json(text).dump());
}

Expr json_exact_value(const nlohmann::ordered_json &value) {
  if (!value.is_structured()) return grammar::text(scalar_text(value));
  std::vector<Expr> parts;
  parts.push_back(grammar::text(value.is_array() ? "[" : "{"));
  for (const auto &[key, member] : value.items()) {
    if (parts.size() > 1) parts.push_back(json_separator(','));
    if (value.is_object()) {
      parts.push_back(json_exact_string(key));
      parts.push_back(json_separator(':'));
    }
    parts.push_back(json_exact_value(member));
  }
  parts.push_back(grammar::text(value.is_array() ? "]" : "}"));
  return grammar::series(std::move(parts));
}

}  // namespace patchbay
