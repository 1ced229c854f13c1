#include "grammar/grammar_network.h"

#include <cstddef>
#include <map>

#include "grammar/utf8_ranges.h"

namespace patchbay {
namespace {

class Layout {
 public:
  explicit Layout(const grammar::Rules &rules) : rules_(rules) {
    network_.rules.resize(rules.rules.size());
  }

  GrammarNetwork lay_out() && {
    enter(rules_.root);
    while (!waiting_.empty()) {
      const uint32_t rule = waiting_.back();
      waiting_.pop_back();
      const auto [start, end] = network_.rules[rule];
      add(rules_.rules[rule].expr, start, end);
    }
    return std::move(network_);
  }

  // Each lays out one kind of expression between two nodes.

  void operator()(const grammar::Text &text, uint32_t from, uint32_t to) {
    if (text.text.empty()) add_edge({.from = from, .to = to});
    for (size_t i = 0; i < text.text.size(); ++i) {
      const uint32_t next = i + 1 == text.text.size() ? to : new_node();
      const auto byte = static_cast<uint8_t>(text.text[i]);
      add_bytes(from, next, {byte, byte});
      from = next;
    }
  }

  void operator()(const grammar::Chars &chars, uint32_t from, uint32_t to) {
    // Characters that end with the same bytes share the nodes before these, so that few nodes are
    // stood on at once.
    std::map<std::vector<ByteRange>, uint32_t> node_before;
    for (const auto &sequence : utf8_ranges(chars.chars)) {
      uint32_t next = to;
      for (size_t i = sequence.size() - 1; i > 0; --i) {
        const std::vector<ByteRange> tail(sequence.begin() + static_cast<ptrdiff_t>(i),
                                          sequence.end());
        const auto [known, is_new] = node_before.try_emplace(tail, 0);
        if (is_new) {
          known->second = new_node();
          add_bytes(known->second, next, sequence[i]);
        }
        next = known->second;
      }
      add_bytes(from, next, sequence[0]);
    }
  }

  void operator()(const grammar::Series &series, uint32_t from, uint32_t to) {
    if (series.parts.empty()) add_edge({.from = from, .to = to});
    for (size_t i = 0; i < series.parts.size(); ++i) {
      const uint32_t next = i + 1 == series.parts.size() ? to : new_node();
      add(series.parts[i], from, next);
      from = next;
    }
  }

  void operator()(const grammar::Choice &choice, uint32_t from, uint32_t to) {
    for (const auto &part : choice.parts) add(part, from, to);
  }

  void operator()(const grammar::Repeat &repeat, uint32_t from, uint32_t to) {
    const auto &what = repeat.what.front();
    for (uint32_t i = 0; i < repeat.n_min && !network_.too_large; ++i) {
      const uint32_t next = new_node();
      add(what, from, next);
      from = next;
    }
    if (repeat.n_max == grammar::k_unbounded) {
      const uint32_t loop = new_node();
      add_edge({.from = from, .to = loop});
      add(what, loop, loop);
      add_edge({.from = loop, .to = to});
      return;
    }
    for (uint32_t i = repeat.n_min; i < repeat.n_max && !network_.too_large; ++i) {
      add_edge({.from = from, .to = to});
      const uint32_t next = new_node();
      add(what, from, next);
      from = next;
    }
    add_edge({.from = from, .to = to});
  }

  void operator()(const grammar::Call &call, uint32_t from, uint32_t to) {
    enter(call.rule);
    add_edge({.from = from, .to = to, .reads = GrammarNetwork::Reads::rule, .rule = call.rule});
  }

  void operator()(const grammar::Network &inner, uint32_t from, uint32_t to) {
    std::vector<uint32_t> nodes(inner.n_nodes);
    for (uint32_t &node : nodes) node = new_node();
    add_edge({.from = from, .to = nodes[0]});
    for (const auto &edge : inner.edges) add(edge.over, nodes[edge.from], nodes[edge.to]);
    for (const uint32_t end : inner.ends) add_edge({.from = nodes[end], .to = to});
  }

 private:
  void add(const grammar::Expr &expr, uint32_t from, uint32_t to) {
    if (network_.too_large) return;
    std::visit([&](const auto &kind) { (*this)(kind, from, to); }, expr.is);
  }

  void enter(uint32_t rule) {
    if (network_.rules[rule].start != 0) return;
    network_.rules[rule].start = new_node();
    network_.rules[rule].end = new_node();
    waiting_.push_back(rule);
  }

  uint32_t new_node() {
    if (network_.n_nodes >= k_most_grammar_nodes) {
      network_.too_large = true;
      return 1;
    }
    return network_.n_nodes++;
  }

  void add_bytes(uint32_t from, uint32_t to, const ByteRange &range) {
    add_edge({.from = from,
              .to = to,
              .reads = GrammarNetwork::Reads::byte,
              .first = range.first,
              .last = range.last});
  }

  void add_edge(const GrammarNetwork::Edge &edge) {
    if (network_.edges.size() >= k_most_grammar_edges) {
      network_.too_large = true;
      return;
    }
    network_.edges.push_back(edge);
  }

  const grammar::Rules &rules_;
  GrammarNetwork network_;
  std::vector<uint32_t> waiting_;  // rules that are entered and not laid out yet
};

}  // namespace

GrammarNetwork lay_out(const grammar::Rules &rules) { return Layout(rules).lay_out(); }

}  // namespace patchbay
