#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace patchbay {

/// The bytes of a vocabulary's tokens as a tree, for finding all tokens that some text allows next.
/// Nodes lie in the order of a walk that goes into a node's children before its sisters. A token's
/// rank is its place when tokens are sorted by their bytes, so that the tokens of a subtree are
/// neighbours. Immutable; any thread.
class TokenTrie {
 public:
  struct Node {
    uint32_t next = 0;        ///< the node after this one's subtree
    uint32_t first_rank = 0;  ///< of the tokens that end here; the next node's are the end of them
    uint32_t below = 0;       ///< of the subtree(); 0: not known
    uint16_t depth = 0;       ///< bytes from the root, 1 for its children
    uint8_t byte = 0;
  };

  /// What comes after a node in its subtree's tokens, read as if a character began there.
  struct Subtree {
    std::bitset<128> ascii;      ///< the ASCII characters in it
    bool beyond_ascii = false;   ///< others are in it
    bool is_well_formed = true;  ///< all of it is UTF-8, the last character maybe unfinished
    uint16_t n_chars = 0;        ///< characters at most
  };

  /// `pieces`: bytes by token, empty for those that are never allowed. `ends`: tokens that end an
  /// answer; what they are spelled does not matter.
  TokenTrie(std::vector<std::string> pieces, std::vector<int32_t> ends);

  /// All nodes but the root, and one more that ends the walk.
  [[nodiscard]] std::span<const Node> nodes() const { return nodes_; }
  [[nodiscard]] const Subtree &below(const Node &node) const { return subtrees_[node.below]; }
  [[nodiscard]] int32_t token(uint32_t rank) const { return tokens_[rank]; }
  [[nodiscard]] uint32_t n_ranked() const { return static_cast<uint32_t>(tokens_.size()); }
  [[nodiscard]] uint32_t depth() const { return depth_; }
  [[nodiscard]] uint32_t n_vocab() const { return static_cast<uint32_t>(pieces_.size()); }
  /// The bytes that a token appends to the text.
  [[nodiscard]] const std::string &piece(int32_t token) const {
    return pieces_[static_cast<size_t>(token)];
  }
  [[nodiscard]] std::span<const int32_t> ends() const { return ends_; }
  [[nodiscard]] size_t size_bytes() const;

 private:
  void add_nodes();
  void describe_subtrees();

  std::vector<std::string> pieces_;  // [n_vocab]
  std::vector<int32_t> ends_;
  std::vector<int32_t> tokens_;  // by rank
  std::vector<Node> nodes_;
  std::vector<Subtree> subtrees_;
  uint32_t depth_ = 0;
};

/// Of a model's vocabulary; tokens from the tokenizer's last up to n_vocab, which no text has, are
/// never allowed, nor control tokens that do not end an answer.
[[nodiscard]] std::shared_ptr<const TokenTrie> make_token_trie(const Tokenizer &tokenizer,
                                                               uint32_t n_vocab);

}  // namespace patchbay
