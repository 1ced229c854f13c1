#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// Whether texts are of a grammar, straight from its rules and as slowly as that is: where
/// expressions may end is looked for place by place. The rules must not be left recursive.
class SlowGrammar {
 public:
  SlowGrammar(const grammar::Rules &rules, std::string_view text) : rules_(rules), text_(text) {}

  bool matches() { return (*this)(grammar::Call{rules_.root}, 0).contains(text_.size()); }

  using Ends = std::set<size_t>;

  Ends operator()(const grammar::Text &literal, size_t at) {
    if (!text_.substr(at).starts_with(literal.text)) return {};
    return {at + literal.text.size()};
  }

  Ends operator()(const grammar::Chars &chars, size_t at) {
    if (at == text_.size()) return {};
    const size_t n_bytes = utf8_size_at(text_, at);
    // UTF-8 sorts as its characters do.
    const std::string_view next = text_.substr(at, n_bytes);
    for (const auto &range : chars.chars.ranges()) {
      if (to_utf8(range.first) <= next && next <= to_utf8(range.last)) return {at + n_bytes};
    }
    return {};
  }

  Ends operator()(const grammar::Series &series, size_t at) {
    Ends ends{at};
    for (const auto &part : series.parts) ends = after(part, ends);
    return ends;
  }

  Ends operator()(const grammar::Choice &choice, size_t at) {
    Ends ends;
    for (const auto &part : choice.parts) ends.merge(after(part, {at}));
    return ends;
  }

  Ends operator()(const grammar::Repeat &repeat, size_t at) {
    Ends last{at};
    Ends ends = repeat.n_min == 0 ? last : Ends{};
    for (uint32_t i = 1; i <= repeat.n_max && !last.empty(); ++i) {
      last = after(repeat.what.front(), last);
      if (i < repeat.n_min) continue;
      const size_t n_before = ends.size();
      ends.insert(last.begin(), last.end());
      if (ends.size() == n_before && i > text_.size()) break;
    }
    return ends;
  }

  Ends operator()(const grammar::Call &call, size_t at) {
    const std::pair key(call.rule, at);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    return known_[key] = after(rules_.rules[call.rule].expr, {at});
  }

  Ends operator()(const grammar::Network &network, size_t at) {
    std::set<std::pair<uint32_t, size_t>> seen{{0, at}};
    std::vector<std::pair<uint32_t, size_t>> work{{0, at}};
    Ends ends;
    while (!work.empty()) {
      const auto [node, pos] = work.back();
      work.pop_back();
      for (const uint32_t end : network.ends) {
        if (end == node) ends.insert(pos);
      }
      for (const auto &edge : network.edges) {
        if (edge.from != node) continue;
        for (const size_t next : after(edge.over, {pos})) {
          if (seen.emplace(edge.to, next).second) work.emplace_back(edge.to, next);
        }
      }
    }
    return ends;
  }

 private:
  Ends after(const grammar::Expr &expr, const Ends &starts) {
    Ends ends;
    for (const size_t at : starts)
      ends.merge(std::visit([&](const auto &kind) { return (*this)(kind, at); }, expr.is));
    return ends;
  }

  const grammar::Rules &rules_;
  std::string_view text_;
  std::map<std::pair<uint32_t, size_t>, Ends> known_;
};

}  // namespace patchbay
