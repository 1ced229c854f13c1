#include "grammar/grammar.h"

#include <fmt/format.h>

#include <algorithm>

#include "grammar/grammar_network.h"

namespace patchbay {
namespace {

using Edge = GrammarNetwork::Edge;
using Reads = GrammarNetwork::Reads;

template <class... Args>
tl::unexpected<Error> refuse(fmt::format_string<Args...> text, Args &&...args) {
  return fail(ErrorCode::invalid_argument, fmt::format(text, std::forward<Args>(args)...));
}

/// Edges by one of their ends.
class EdgesAt {
 public:
  EdgesAt(const GrammarNetwork &network, uint32_t Edge::*end)
      : begin_(network.n_nodes + 1), edges_(network.edges.size()) {
    for (const Edge &edge : network.edges) ++begin_[edge.*end + 1];
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    std::vector<uint32_t> next(begin_.begin(), begin_.end() - 1);
    for (const Edge &edge : network.edges) edges_[next[edge.*end]++] = &edge;
  }

  [[nodiscard]] std::span<const Edge *const> at(uint32_t node) const {
    return std::span(edges_).subspan(begin_[node], begin_[node + 1] - begin_[node]);
  }

 private:
  std::vector<uint32_t> begin_;
  std::vector<const Edge *> edges_;
};

/// The nodes from which a rule's end can be reached.
std::vector<bool> find_alive(const GrammarNetwork &network) {
  const EdgesAt into(network, &Edge::to);
  std::vector<bool> alive(network.n_nodes);
  std::vector<bool> ends(network.rules.size());
  std::vector<std::vector<uint32_t>> callers(ends.size());  // nodes that wait for a rule to end
  std::vector<std::vector<uint32_t>> rules_at(network.n_nodes);
  std::vector<uint32_t> work;
  const auto reach = [&](uint32_t node) {
    if (!alive[node]) work.push_back(node);
    alive[node] = true;
  };
  for (uint32_t i = 0; i < network.rules.size(); ++i) {
    if (network.rules[i].start == 0) continue;
    rules_at[network.rules[i].start].push_back(i);
    reach(network.rules[i].end);
  }
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (const uint32_t rule : rules_at[node]) {
      ends[rule] = true;
      for (const uint32_t caller : callers[rule]) reach(caller);
    }
    for (const Edge *edge : into.at(node)) {
      if (edge->reads != Reads::rule || ends[edge->rule]) {
        reach(edge->from);
      } else {
        callers[edge->rule].push_back(edge->from);
      }
    }
  }
  return alive;
}

/// Keeps the edges that some text goes through.
void prune(GrammarNetwork &network, const std::vector<bool> &alive) {
  std::erase_if(network.edges, [&](const Edge &edge) {
    return !alive[edge.to] || (edge.reads == Reads::rule && !alive[network.rules[edge.rule].start]);
  });
}

/// What can be said of rules by looking at how they begin.
struct Beginnings {
  std::vector<bool> is_nullable;             // by rule
  std::vector<std::vector<uint32_t>> calls;  // by rule: those that it may begin with
};

Beginnings find_beginnings(const GrammarNetwork &network) {
  const EdgesAt out(network, &Edge::from);
  const size_t n_rules = network.rules.size();
  Beginnings found{std::vector<bool>(n_rules), std::vector<std::vector<uint32_t>>(n_rules)};
  // A node belongs to one rule. It is reached when the rule can stand on it having read nothing.
  struct Waiting {
    uint32_t rule = 0;
    uint32_t node = 0;
  };
  std::vector<bool> reached(network.n_nodes);
  std::vector<std::vector<Waiting>> callers(n_rules);  // who goes on if the rule is nullable
  std::vector<Waiting> work;
  const auto reach = [&](uint32_t rule, uint32_t node) {
    if (!reached[node]) work.push_back({rule, node});
    reached[node] = true;
  };
  for (uint32_t i = 0; i < n_rules; ++i) {
    if (network.rules[i].start != 0) reach(i, network.rules[i].start);
  }
  while (!work.empty()) {
    const auto [rule, node] = work.back();
    work.pop_back();
    if (node == network.rules[rule].end) {
      found.is_nullable[rule] = true;
      for (const auto &caller : callers[rule]) reach(caller.rule, caller.node);
    }
    for (const Edge *edge : out.at(node)) {
      if (edge->reads == Reads::nothing) reach(rule, edge->to);
      if (edge->reads != Reads::rule) continue;
      found.calls[rule].push_back(edge->rule);
      if (found.is_nullable[edge->rule]) {
        reach(rule, edge->to);
      } else {
        callers[edge->rule].push_back({rule, edge->to});
      }
    }
  }
  return found;
}

/// Numbers the rules so that each comes before those that it may begin with; names the circle when
/// there is one.
class Ranking {
 public:
  Ranking(const Beginnings &beginnings, const grammar::Rules &rules)
      : calls_(beginnings.calls), rules_(rules), ranks_(calls_.size()), marks_(calls_.size()) {}

  Expected<std::vector<uint32_t>> rank() && {
    for (uint32_t rule = 0; rule < calls_.size(); ++rule) {
      if (marks_[rule] == Mark::unseen && !visit(rule)) return refuse_circle();
    }
    return std::move(ranks_);
  }

 private:
  enum class Mark : uint8_t { unseen, on_path, done };
  struct Step {
    uint32_t rule = 0;
    size_t next = 0;  ///< of its calls
  };

  void enter(uint32_t rule) {
    marks_[rule] = Mark::on_path;
    path_.push_back({rule});
  }

  /// Depth first, by hand: a chain of rules may be longer than the stack is deep.
  bool visit(uint32_t first) {
    enter(first);
    while (!path_.empty()) {
      Step &step = path_.back();
      if (step.next == calls_[step.rule].size()) {
        marks_[step.rule] = Mark::done;
        ranks_[step.rule] = n_left_--;
        path_.pop_back();
        continue;
      }
      const uint32_t called = calls_[step.rule][step.next++];
      if (marks_[called] == Mark::on_path) {
        path_.push_back({called});
        return false;
      }
      if (marks_[called] == Mark::unseen) enter(called);
    }
    return true;
  }

  tl::unexpected<Error> refuse_circle() const {
    const uint32_t repeated = path_.back().rule;
    const auto first = std::ranges::find(path_, repeated, &Step::rule);
    constexpr ptrdiff_t k_most_shown = 8;
    std::string circle;
    for (auto step = first; step != path_.end(); ++step) {
      if (step - first == k_most_shown) {
        circle += " -> ...";
        break;
      }
      circle += (circle.empty() ? "" : " -> ") + rules_.rules[step->rule].name;
    }
    return refuse(
        "rule {} calls itself before it reads anything: {} (left recursion is not "
        "supported, repetition says the same)",
        rules_.rules[repeated].name, circle);
  }

  const std::vector<std::vector<uint32_t>> &calls_;
  const grammar::Rules &rules_;
  std::vector<uint32_t> ranks_;
  std::vector<Mark> marks_;
  std::vector<Step> path_;
  uint32_t n_left_ = static_cast<uint32_t>(calls_.size());
};

}  // namespace

class GrammarCompiler {
 public:
  static Grammar pack(const GrammarNetwork &network, const Beginnings &beginnings,
                      const std::vector<uint32_t> &ranks, uint32_t root) {
    Grammar packed;
    packed.root_ = root;
    for (size_t i = 0; i < network.rules.size(); ++i) {
      packed.rules_.push_back({.start = network.rules[i].start,
                               .rank = ranks[i],
                               .is_nullable = beginnings.is_nullable[i]});
    }
    const EdgesAt out(network, &Edge::from);
    packed.bytes_.begin.push_back(0);
    packed.calls_.begin.push_back(0);
    packed.skips_.begin.push_back(0);
    for (uint32_t node = 0; node < network.n_nodes; ++node) {
      for (const Edge *edge : out.at(node)) add(*edge, packed);
      packed.bytes_.begin.push_back(static_cast<uint32_t>(packed.bytes_.edges.size()));
      packed.calls_.begin.push_back(static_cast<uint32_t>(packed.calls_.edges.size()));
      packed.skips_.begin.push_back(static_cast<uint32_t>(packed.skips_.edges.size()));
    }
    packed.is_end_.resize(network.n_nodes);
    for (const auto &rule : network.rules) packed.is_end_[rule.end] = rule.start != 0;
    packed.only_ends_.resize(network.n_nodes);
    for (const auto &call : packed.calls_.edges)
      packed.only_ends_[call.to] = only_ends(packed, call.to);
    return packed;
  }

 private:
  static void add(const Edge &edge, Grammar &packed) {
    switch (edge.reads) {
      case Reads::nothing:
        packed.skips_.edges.push_back(edge.to);
        break;
      case Reads::byte:
        packed.bytes_.edges.push_back({edge.to, edge.first, edge.last});
        break;
      case Reads::rule:
        packed.calls_.edges.push_back({edge.rule, edge.to});
        break;
    }
  }

  /// Every node is alive, so one that reads nothing and skips to no node that does must end. Who
  /// skips further than is looked at is taken for one that reads: that costs memory, no more.
  static bool only_ends(const Grammar &packed, uint32_t first) {
    constexpr size_t k_most_seen = 64;
    std::vector<uint32_t> seen{first};
    for (size_t i = 0; i < seen.size(); ++i) {
      const uint32_t node = seen[i];
      if (seen.size() > k_most_seen) return false;
      if (!packed.bytes(node).empty() || !packed.calls(node).empty()) return false;
      for (const uint32_t next : packed.skips(node)) {
        if (std::ranges::find(seen, next) == seen.end()) seen.push_back(next);
      }
    }
    return true;
  }
};

Expected<Grammar> Grammar::compile(const grammar::Rules &rules, MustEnd must_end) {
  GrammarNetwork network = lay_out(rules);
  if (network.too_large) {
    return refuse(
        "the grammar is too large: with repetitions written out it has more than {} "
        "nodes or {} edges",
        k_most_grammar_nodes, k_most_grammar_edges);
  }
  const std::vector<bool> alive = find_alive(network);
  // Where every rule ends there is nothing to prune: only schemas have expressions without a text.
  if (must_end == MustEnd::root) prune(network, alive);
  const Beginnings beginnings = find_beginnings(network);
  auto ranks = Ranking(beginnings, rules).rank();
  if (!ranks) return tl::unexpected(ranks.error());
  for (size_t i = 0; i < rules.rules.size(); ++i) {
    const uint32_t start = network.rules[i].start;
    if (start != 0 && !alive[start] && (must_end == MustEnd::every_rule || i == rules.root))
      return refuse("rule {} can never end: no text is of this form", rules.rules[i].name);
  }
  return GrammarCompiler::pack(network, beginnings, *ranks, rules.root);
}

}  // namespace patchbay
