#include "grammar/token_trie.h"

#include <algorithm>

namespace patchbay {
namespace {

using Node = TokenTrie::Node;
using Subtree = TokenTrie::Subtree;

// Smaller subtrees are walked as fast as they are skipped.
constexpr uint32_t k_least_described = 4;

/// The bytes that may come second in a character, and how many follow in all.
struct CharTail {
  uint8_t low = 0x80;
  uint8_t high = 0xBF;
  int n_left = 0;  ///< 0: the byte begins no character
};

CharTail tail_after(uint8_t lead) {
  if (lead < 0xC2 || lead > 0xF4) return {};
  CharTail tail{.n_left = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3};
  if (lead == 0xE0) tail.low = 0xA0;
  if (lead == 0xED) tail.high = 0x9F;
  if (lead == 0xF0) tail.low = 0x90;
  if (lead == 0xF4) tail.high = 0x8F;
  return tail;
}

/// Describes subtrees from the last node to the first, so that the children's are known.
class Describer {
 public:
  explicit Describer(std::span<const Node> nodes) : nodes_(nodes), below_(nodes.size()) {}

  void describe(uint32_t i) {
    Subtree &below = below_[i];
    for_children(i, [&](uint32_t child) {
      const uint8_t byte = nodes_[child].byte;
      if (byte < 0x80) {
        below.ascii.set(byte);
        join(below, below_[child], 1);
      } else {
        join_tails(below, child, tail_after(byte));
      }
    });
  }

  [[nodiscard]] const Subtree &at(uint32_t i) const { return below_[i]; }

 private:
  template <class Visit>
  void for_children(uint32_t i, const Visit &visit) const {
    for (uint32_t child = i + 1; child < nodes_[i].next; child = nodes_[child].next) visit(child);
  }

  static void join(Subtree &below, const Subtree &child, int n_more_chars) {
    below.ascii |= child.ascii;
    below.beyond_ascii |= child.beyond_ascii;
    below.is_well_formed &= child.is_well_formed;
    below.n_chars =
        std::max<uint16_t>(below.n_chars, static_cast<uint16_t>(child.n_chars + n_more_chars));
  }

  /// The rest of a character that has begun at node i or before.
  void join_tails(Subtree &below, uint32_t i, const CharTail &tail) const {
    if (tail.n_left == 0) {
      below.is_well_formed = false;
      return;
    }
    below.beyond_ascii = true;
    below.n_chars = std::max<uint16_t>(below.n_chars, 1);
    for_children(i, [&](uint32_t child) {
      const uint8_t byte = nodes_[child].byte;
      if (byte < tail.low || byte > tail.high) {
        below.is_well_formed = false;
      } else if (tail.n_left == 1) {
        join(below, below_[child], 1);
      } else {
        join_tails(below, child, {.n_left = tail.n_left - 1});
      }
    });
  }

  std::span<const Node> nodes_;
  std::vector<Subtree> below_;
};

}  // namespace

TokenTrie::TokenTrie(std::vector<std::string> pieces, std::vector<int32_t> ends)
    : pieces_(std::move(pieces)), ends_(std::move(ends)) {
  for (const int32_t end : ends_) pieces_[static_cast<size_t>(end)].clear();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].empty()) tokens_.push_back(static_cast<int32_t>(i));
  }
  std::ranges::stable_sort(tokens_, {},
                           [this](int32_t token) -> const std::string & { return piece(token); });
  add_nodes();
  describe_subtrees();
}

void TokenTrie::add_nodes() {
  std::vector<uint32_t> path;  // nodes from the root's child to the last node
  const auto close = [&](size_t depth) {
    for (; path.size() > depth; path.pop_back())
      nodes_[path.back()].next = static_cast<uint32_t>(nodes_.size());
  };
  std::string_view earlier;
  for (uint32_t rank = 0; rank < tokens_.size(); ++rank) {
    const std::string_view piece = pieces_[static_cast<size_t>(tokens_[rank])];
    const auto differ = std::ranges::mismatch(earlier, piece);
    const auto n_same = static_cast<size_t>(differ.in2 - piece.begin());
    close(n_same);
    for (size_t i = n_same; i < piece.size(); ++i) {
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({.first_rank = rank,
                        .depth = static_cast<uint16_t>(i + 1),
                        .byte = static_cast<uint8_t>(piece[i])});
    }
    depth_ = std::max(depth_, static_cast<uint32_t>(piece.size()));
    earlier = piece;
  }
  close(0);
  nodes_.push_back({.next = static_cast<uint32_t>(nodes_.size()), .first_rank = n_ranked()});
}

void TokenTrie::describe_subtrees() {
  Describer describer(nodes_);
  subtrees_.emplace_back();
  for (auto i = static_cast<uint32_t>(nodes_.size() - 1); i-- > 0;) {
    describer.describe(i);
    if (nodes_[i].next - i - 1 < k_least_described) continue;
    if (!describer.at(i).is_well_formed) continue;
    nodes_[i].below = static_cast<uint32_t>(subtrees_.size());
    subtrees_.push_back(describer.at(i));
  }
}

size_t TokenTrie::size_bytes() const {
  size_t bytes = nodes_.size() * sizeof(Node) + subtrees_.size() * sizeof(Subtree) +
                 (tokens_.size() + ends_.size()) * sizeof(int32_t);
  for (const std::string &piece : pieces_) bytes += sizeof(std::string) + piece.size();
  return bytes;
}

std::shared_ptr<const TokenTrie> make_token_trie(const Tokenizer &tokenizer, uint32_t n_vocab) {
  std::vector<std::string> pieces(n_vocab);
  for (int32_t token = 0; token < tokenizer.n_vocab(); ++token) {
    if (!tokenizer.is_control(token))
      pieces[static_cast<size_t>(token)] = std::string(tokenizer.piece(token));
  }
  const auto ends = tokenizer.eog_tokens();
  return std::make_shared<const TokenTrie>(std::move(pieces),
                                           std::vector<int32_t>(ends.begin(), ends.end()));
}

}  // namespace patchbay
