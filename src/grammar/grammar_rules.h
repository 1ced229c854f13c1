#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "grammar/char_set.h"

/// A grammar as it is written: rules whose right sides are expressions over characters.
namespace patchbay::grammar {

struct Expr;

/// Exactly these bytes, UTF-8.
struct Text {
  std::string text;
};

/// One character of a set.
struct Chars {
  CharSet chars;
};

/// One after the other; empty: the empty text.
struct Series {
  std::vector<Expr> parts;
};

/// One of several; empty: nothing, not even the empty text.
struct Choice {
  std::vector<Expr> parts;
};

inline constexpr uint32_t k_unbounded = std::numeric_limits<uint32_t>::max();

struct Repeat {
  std::vector<Expr> what;  ///< exactly one
  uint32_t n_min = 0;
  uint32_t n_max = k_unbounded;
};

struct Call {
  uint32_t rule = 0;
};

/// The texts along the ways from the first node to one of the ends.
struct Network {
  struct Edge;

  uint32_t n_nodes = 1;
  std::vector<Edge> edges;
  std::vector<uint32_t> ends;

  void add(uint32_t from, uint32_t to, Expr over);
};

struct Expr {
  std::variant<Text, Chars, Series, Choice, Repeat, Call, Network> is;
};

struct Network::Edge {
  uint32_t from = 0;
  uint32_t to = 0;
  Expr over;
};

struct Rule {
  std::string name;  ///< as messages call it
  Expr expr;
};

struct Rules {
  std::vector<Rule> rules;
  uint32_t root = 0;
};

// Short ways to write expressions.
[[nodiscard]] inline Expr text(std::string bytes) { return {Text{std::move(bytes)}}; }
[[nodiscard]] inline Expr chars(CharSet set) { return {Chars{std::move(set)}}; }
[[nodiscard]] inline Expr series(std::vector<Expr> parts) { return {Series{std::move(parts)}}; }
[[nodiscard]] inline Expr choice(std::vector<Expr> parts) { return {Choice{std::move(parts)}}; }
[[nodiscard]] inline Expr call(uint32_t rule) { return {Call{rule}}; }
[[nodiscard]] inline Expr repeat(Expr what, uint32_t n_min, uint32_t n_max = k_unbounded) {
  Repeat repeated{.n_min = n_min, .n_max = n_max};
  repeated.what.push_back(std::move(what));
  return {std::move(repeated)};
}
[[nodiscard]] inline Expr optional(Expr what) { return repeat(std::move(what), 0, 1); }

}  // namespace patchbay::grammar
