#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// A grammar ready to be matched, byte by byte: for each rule a network of nodes whose edges read a
/// byte, call another rule, or read nothing. Only what some text can go through is left, so that
/// whoever stands on a node can still reach an end. Immutable; any thread.
class Grammar {
 public:
  struct ByteEdge {
    uint32_t to = 0;
    uint8_t first = 0;
    uint8_t last = 0;  ///< included
  };
  struct CallEdge {
    uint32_t rule = 0;
    uint32_t to = 0;  ///< where it goes on after the rule
  };
  struct Rule {
    uint32_t start = 0;
    /// A rule that begins with a call of another has the smaller rank of the two.
    uint32_t rank = 0;
    bool is_nullable = false;  ///< the empty text is one of it
  };
  /// What may come after the root rule: nothing. A node of no rule.
  static constexpr uint32_t k_bottom = 0;

  enum class MustEnd {
    every_rule,
    root,  ///< other rules that cannot end are never entered
  };
  /// invalid_argument: left recursion, a rule without an end, more than the limits allow; naming
  /// the rule.
  [[nodiscard]] static Expected<Grammar> compile(const grammar::Rules &rules,
                                                 MustEnd must_end = MustEnd::every_rule);

  [[nodiscard]] uint32_t root() const { return root_; }
  [[nodiscard]] const Rule &rule(uint32_t rule) const { return rules_[rule]; }
  [[nodiscard]] uint32_t n_rules() const { return static_cast<uint32_t>(rules_.size()); }
  [[nodiscard]] uint32_t n_nodes() const { return static_cast<uint32_t>(is_end_.size()); }

  [[nodiscard]] std::span<const ByteEdge> bytes(uint32_t node) const { return bytes_.at(node); }
  [[nodiscard]] std::span<const CallEdge> calls(uint32_t node) const { return calls_.at(node); }
  /// Nodes that are reached without reading anything.
  [[nodiscard]] std::span<const uint32_t> skips(uint32_t node) const { return skips_.at(node); }
  /// The rule may end here.
  [[nodiscard]] bool is_end(uint32_t node) const { return is_end_[node]; }
  /// The rule can do nothing but end here.
  [[nodiscard]] bool only_ends(uint32_t node) const { return only_ends_[node]; }

 private:
  friend class GrammarCompiler;  // fills it, and is in the same file

  /// Lists by node, one behind the other.
  template <class Edge>
  struct Lists {
    std::vector<uint32_t> begin;  // [n_nodes + 1]
    std::vector<Edge> edges;

    [[nodiscard]] std::span<const Edge> at(uint32_t node) const {
      return std::span(edges).subspan(begin[node], begin[node + 1] - begin[node]);
    }
  };

  Grammar() = default;

  uint32_t root_ = 0;
  std::vector<Rule> rules_;
  Lists<ByteEdge> bytes_;
  Lists<CallEdge> calls_;
  Lists<uint32_t> skips_;
  std::vector<bool> is_end_;
  std::vector<bool> only_ends_;
};

}  // namespace patchbay
