#pragma once

#include <cstdint>
#include <vector>

#include "grammar/grammar_rules.h"

namespace patchbay {

/// The nodes and edges of rules as they are written, before anything is known about them.
struct GrammarNetwork {
  enum class Reads : uint8_t { nothing, byte, rule };
  struct Edge {
    uint32_t from = 0;
    uint32_t to = 0;
    Reads reads = Reads::nothing;
    uint8_t first = 0;  ///< of the bytes
    uint8_t last = 0;
    uint32_t rule = 0;
  };
  struct Rule {
    uint32_t start = 0;  ///< 0: not reached from the root
    uint32_t end = 0;
  };

  uint32_t n_nodes = 1;  ///< node 0 belongs to no rule
  std::vector<Edge> edges;
  std::vector<Rule> rules;
  bool too_large = false;  ///< more nodes or edges than a grammar may have; the rest is missing
};

/// Limits of one grammar: its nodes take about 50 bytes each, and compiling a full one 0.2 s.
inline constexpr uint32_t k_most_grammar_nodes = 1U << 18U;
inline constexpr uint32_t k_most_grammar_edges = 1U << 20U;

/// Lays out the rules that the root reaches; repetitions become copies.
[[nodiscard]] GrammarNetwork lay_out(const grammar::Rules &rules);

}  // namespace patchbay
