#include "grammar/char_network.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/utf8.h"

namespace patchbay {
namespace {

constexpr size_t k_most_nodes = 100'000;
constexpr size_t k_most_edges = 100'000;

/// Numbers the characters of an expression and finds which may follow which.
class Glushkov {
 public:
  /// Of a part of the expression.
  struct Part {
    bool is_nullable = true;
    std::vector<uint32_t> first;
    std::vector<uint32_t> last;
  };

  Part operator()(const grammar::Text &text) {
    Part whole;
    for (size_t pos = 0; pos < text.text.size();) {
      const char32_t c = code_point_at(text.text, pos);
      append(whole, (*this)(grammar::Chars{CharSet{{c, c}}}));
      pos += utf8_size_at(text.text, pos);
    }
    return whole;
  }

  Part operator()(const grammar::Chars &chars) {
    if (network_.n_nodes() >= k_most_nodes) {
      too_large_ = true;
      return {};
    }
    const uint32_t node = network_.add_node();
    chars_.resize(node + 1);
    chars_[node] = chars.chars;
    return {.is_nullable = false, .first = {node}, .last = {node}};
  }

  Part operator()(const grammar::Series &series) {
    Part whole;
    for (const auto &part : series.parts) append(whole, visit(part));
    return whole;
  }

  Part operator()(const grammar::Choice &choice) {
    Part whole{.is_nullable = false};
    for (const auto &each : choice.parts) {
      const Part part = visit(each);
      whole.is_nullable |= part.is_nullable;
      whole.first.insert(whole.first.end(), part.first.begin(), part.first.end());
      whole.last.insert(whole.last.end(), part.last.begin(), part.last.end());
    }
    return whole;
  }

  Part operator()(const grammar::Repeat &repeat) {
    Part whole;
    for (uint32_t i = 1; i < repeat.n_min && !too_large_; ++i)
      append(whole, visit(repeat.what.front()));
    append(whole, repeat_rest(repeat));
    return whole;
  }

  // Patterns have no rules and no networks.
  Part operator()(const grammar::Call & /*call*/) { return {}; }
  Part operator()(const grammar::Network & /*network*/) { return {}; }

  Part visit(const grammar::Expr &expr) {
    if (too_large_) return {};
    return std::visit([&](const auto &kind) { return (*this)(kind); }, expr.is);
  }

  std::optional<CharNetwork> finish(const Part &whole) && {
    if (too_large_) return std::nullopt;
    for (const uint32_t node : whole.first) link(0, node);
    network_.is_end[0] = whole.is_nullable;
    for (const uint32_t node : whole.last) network_.is_end[node] = true;
    if (too_large_) return std::nullopt;
    return std::move(network_);
  }

 private:
  /// All but n_min - 1 of the copies. A further copy follows on the one before only, so that the
  /// number of edges stays that of the copies.
  Part repeat_rest(const grammar::Repeat &repeat) {
    if (repeat.n_max == 0) return {};
    const bool is_loop = repeat.n_max == grammar::k_unbounded;
    const uint32_t n_copies = is_loop ? 1 : repeat.n_max - std::max(repeat.n_min, 1U) + 1;
    Part copy = visit(repeat.what.front());
    Part whole = copy;
    whole.is_nullable |= repeat.n_min == 0;
    if (is_loop) link(whole.last, whole.first);
    for (uint32_t i = 1; i < n_copies && !too_large_; ++i) {
      const Part next = visit(repeat.what.front());
      link(copy.last, next.first);
      whole.last.insert(whole.last.end(), next.last.begin(), next.last.end());
      copy = next;
    }
    return whole;
  }

  void append(Part &whole, const Part &next) {
    link(whole.last, next.first);
    if (whole.is_nullable)
      whole.first.insert(whole.first.end(), next.first.begin(), next.first.end());
    if (!next.is_nullable) whole.last.clear();
    whole.last.insert(whole.last.end(), next.last.begin(), next.last.end());
    whole.is_nullable &= next.is_nullable;
  }

  void link(const std::vector<uint32_t> &from, const std::vector<uint32_t> &to) {
    for (const uint32_t one : from) {
      for (const uint32_t other : to) link(one, other);
    }
  }

  void link(uint32_t from, uint32_t to) {
    auto &edges = network_.edges[from];
    if (too_large_ || !linked_.emplace(from, to).second) return;
    too_large_ = linked_.size() > k_most_edges;
    edges.push_back({to, chars_[to]});
  }

  CharNetwork network_;
  std::vector<CharSet> chars_{CharSet()};  // by node, what is read on the way to it
  std::set<std::pair<uint32_t, uint32_t>> linked_;
  bool too_large_ = false;
};

}  // namespace

uint32_t CharNetwork::add_node(bool end) {
  edges.emplace_back();
  is_end.push_back(end);
  return n_nodes() - 1;
}

size_t CharNetwork::n_edges() const {
  size_t n = 0;
  for (const auto &each : edges) n += each.size();
  return n;
}

bool CharNetwork::matches(std::string_view text) const {
  std::set<uint32_t> nodes{0};
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = code_point_at(text, pos);
    std::set<uint32_t> reached;
    for (const uint32_t node : nodes) {
      for (const Edge &edge : edges[node]) {
        if (edge.chars.contains(c)) reached.insert(edge.to);
      }
    }
    nodes = std::move(reached);
    pos += utf8_size_at(text, pos);
  }
  return std::ranges::any_of(nodes, [&](uint32_t node) { return is_end[node]; });
}

std::optional<CharNetwork> make_char_network(const grammar::Expr &expr) {
  Glushkov glushkov;
  const auto whole = glushkov.visit(expr);
  return std::move(glushkov).finish(whole);
}

std::optional<CharNetwork> intersection(const CharNetwork &one, const CharNetwork &other) {
  CharNetwork both;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> node_of{{{0, 0}, 0}};
  std::vector<std::pair<uint32_t, uint32_t>> pairs{{0, 0}};
  both.is_end[0] = one.is_end[0] && other.is_end[0];
  size_t n_edges = 0;
  for (uint32_t node = 0; node < pairs.size(); ++node) {
    const auto [in_one, in_other] = pairs[node];
    for (const auto &edge : one.edges[in_one]) {
      for (const auto &beside : other.edges[in_other]) {
        CharSet chars = edge.chars.intersection(beside.chars);
        if (chars.empty()) continue;
        const std::pair to(edge.to, beside.to);
        const auto [known, is_new] = node_of.try_emplace(to, both.n_nodes());
        if (is_new) {
          pairs.push_back(to);
          both.add_node(one.is_end[edge.to] && other.is_end[beside.to]);
        }
        if (both.n_nodes() > k_most_nodes || ++n_edges > k_most_edges) return std::nullopt;
        both.edges[node].push_back({known->second, std::move(chars)});
      }
    }
  }
  return both;
}

std::optional<CharNetwork> texts_of_length(uint32_t n_min, uint32_t n_max) {
  const bool is_open = n_max == grammar::k_unbounded;
  const uint32_t n_chars = is_open ? n_min : n_max;
  if (n_chars >= k_most_nodes) return std::nullopt;
  CharNetwork network;
  for (uint32_t i = 0; i < n_chars; ++i) {
    const uint32_t next = network.add_node();
    network.edges[i].push_back({next, CharSet::all()});
  }
  for (uint32_t i = 0; i <= n_chars; ++i) network.is_end[i] = i >= n_min;
  if (is_open) network.edges[n_chars].push_back({n_chars, CharSet::all()});
  return network;
}

/// A tree of the texts, which is left at the first character that none of them has there.
CharNetwork all_texts_but(const std::vector<std::string> &texts) {
  CharNetwork network;
  network.is_end[0] = true;
  for (const std::string &text : texts) {
    uint32_t node = 0;
    for (size_t pos = 0; pos < text.size(); pos += utf8_size_at(text, pos)) {
      const CharSet c{{code_point_at(text, pos), code_point_at(text, pos)}};
      auto &edges = network.edges[node];
      const auto known = std::ranges::find(edges, c, &CharNetwork::Edge::chars);
      if (known != edges.end()) {
        node = known->to;
        continue;
      }
      const uint32_t next = network.n_nodes();
      edges.push_back({next, c});
      network.add_node(true);
      node = next;
    }
    network.is_end[node] = false;
  }
  const uint32_t n_in_tree = network.n_nodes();
  const uint32_t free = network.add_node(true);
  network.edges[free].push_back({free, CharSet::all()});
  for (uint32_t node = 0; node < n_in_tree; ++node) {
    CharSet known;
    for (const auto &edge : network.edges[node]) known.add(edge.chars);
    network.edges[node].push_back({free, known.complement()});
  }
  return network;
}

}  // namespace patchbay
