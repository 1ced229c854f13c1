#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/gbnf_parser.h"
#include "grammar/grammar.h"
#include "grammar/grammar_matcher.h"
#include "grammar/token_masks.h"

namespace patchbay {

inline std::shared_ptr<const Grammar> grammar_of(std::string_view gbnf) {
  const auto rules = parse_gbnf(gbnf);
  EXPECT_TRUE(rules) << (rules ? "" : rules.error().message);
  auto compiled = Grammar::compile(*rules);
  EXPECT_TRUE(compiled) << (compiled ? "" : compiled.error().message);
  return std::make_shared<const Grammar>(*std::move(compiled));
}

/// Why a grammar is refused; empty if it is not.
inline std::string refusal_of(std::string_view gbnf) {
  const auto rules = parse_gbnf(gbnf);
  if (!rules) return rules.error().message;
  const auto compiled = Grammar::compile(*rules);
  return compiled ? "" : compiled.error().message;
}

/// Every byte is a token.
inline std::shared_ptr<const TokenTrie> byte_trie() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  pieces.emplace_back("<eos>");
  return std::make_shared<const TokenTrie>(std::move(pieces), std::vector<int32_t>{256});
}

inline GrammarMatcher matcher_of(const std::shared_ptr<const Grammar> &grammar) {
  return GrammarMatcher(std::make_shared<TokenMasks>(grammar, byte_trie()));
}

inline bool matches(const std::shared_ptr<const Grammar> &grammar, std::string_view text) {
  GrammarMatcher matcher = matcher_of(grammar);
  const auto read = matcher.read(text);
  EXPECT_TRUE(read);
  return *read && matcher.accepts();
}

}  // namespace patchbay
