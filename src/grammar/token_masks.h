#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "grammar/grammar_states.h"
#include "grammar/token_mask.h"
#include "grammar/token_trie.h"

namespace patchbay {

/// A grammar over a vocabulary: its states, and for each the tokens that may come next, found when
/// they are asked for and kept while there is room. Shared by all sequences that follow the
/// grammar. One thread at a time.
class TokenMasks {
 public:
  using State = GrammarStates::State;

  TokenMasks(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenTrie> trie);

  [[nodiscard]] const TokenTrie &trie() const { return *trie_; }
  [[nodiscard]] State start() const { return states_.start(); }
  [[nodiscard]] bool accepts(State state) const { return states_.accepts(state); }
  [[nodiscard]] bool goes_on(State state) const { return states_.goes_on(state); }

  /// The tokens that may come next: those after which some text is still possible, and those that
  /// end an answer where the text may end. Valid until the next call. invalid_argument: the grammar
  /// can be read in so many ways that the work does not end.
  [[nodiscard]] Expected<const TokenMask *> at(State state);

  /// The state after more text; k_dead when the grammar has no such text. Fails as at() does.
  [[nodiscard]] Expected<State> read(State state, std::string_view bytes);

  /// Changes when states are forgotten: their numbers mean something else from then on.
  [[nodiscard]] uint32_t epoch() const { return epoch_; }
  /// The states take all the room that they may.
  [[nodiscard]] bool is_full() const;
  /// Forgets what takes too much room.
  void make_room();

  [[nodiscard]] size_t size_bytes() const {
    return states_.size_bytes() + states_.row_bytes() + mask_bytes_;
  }

 private:
  using RankRange = std::pair<uint32_t, uint32_t>;

  [[nodiscard]] Expected<std::vector<RankRange>> find_allowed(State state);
  [[nodiscard]] bool reads_all(State state, const TokenTrie::Subtree &below);
  [[nodiscard]] TokenMask make_mask(const std::vector<RankRange> &allowed) const;
  [[nodiscard]] Expected<void> check_work(uint64_t work) const;

  std::shared_ptr<const TokenTrie> trie_;
  GrammarStates states_;
  TokenMask every_token_;
  std::unordered_map<State, TokenMask> masks_;
  size_t mask_bytes_ = 0;
  uint32_t epoch_ = 0;
};

}  // namespace patchbay
