#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/char_set.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// A regular set of texts, as ways from node 0 to an end along edges that read one character each.
struct CharNetwork {
  struct Edge {
    uint32_t to = 0;
    CharSet chars;
  };

  std::vector<std::vector<Edge>> edges{1};  ///< by node
  std::vector<bool> is_end{false};          ///< by node

  [[nodiscard]] uint32_t n_nodes() const { return static_cast<uint32_t>(edges.size()); }
  [[nodiscard]] size_t n_edges() const;
  uint32_t add_node(bool end = false);
  [[nodiscard]] bool matches(std::string_view text) const;
};

// What would have more than about 100,000 nodes or edges is none.

/// Of an expression of Chars, Series, Choice and Repeat: each Chars becomes a node (V. M. Glushkov,
/// Russian Mathematical Surveys 16(5), 1961).
[[nodiscard]] std::optional<CharNetwork> make_char_network(const grammar::Expr &expr);
/// The texts that are in both.
[[nodiscard]] std::optional<CharNetwork> intersection(const CharNetwork &one,
                                                      const CharNetwork &other);
/// All texts of so many characters; `n_max` may be k_unbounded.
[[nodiscard]] std::optional<CharNetwork> texts_of_length(uint32_t n_min, uint32_t n_max);
/// All texts but these.
[[nodiscard]] CharNetwork all_texts_but(const std::vector<std::string> &texts);

}  // namespace patchbay
