#include "grammar/token_masks.h"

#include <algorithm>

namespace patchbay {
namespace {

// Of one mask, or of the reading of one token: some 10 ms. A grammar of JSON with a vocabulary of
// 262,144 tokens needs a tenth of it at most.
constexpr uint64_t k_most_work = uint64_t{1} << 18U;
// And for each byte that is read, for when a whole text is read again.
constexpr uint64_t k_work_per_byte = 32;
// A node of the vocabulary is looked at in a tenth of the time that a place of a state takes.
constexpr uint64_t k_nodes_per_work = 8;

// A mask of 262,144 tokens has 32 KiB; a row has 1 KiB, a state some 100 bytes.
constexpr size_t k_most_mask_bytes = size_t{8} << 20U;
constexpr size_t k_most_row_bytes = size_t{8} << 20U;
constexpr size_t k_most_state_bytes = size_t{16} << 20U;

}  // namespace

TokenMasks::TokenMasks(std::shared_ptr<const Grammar> grammar,
                       std::shared_ptr<const TokenTrie> trie)
    : trie_(std::move(trie)), states_(std::move(grammar)), every_token_(trie_->n_vocab()) {
  for (uint32_t rank = 0; rank < trie_->n_ranked(); ++rank) every_token_.allow(trie_->token(rank));
}

Expected<const TokenMask *> TokenMasks::at(State state) {
  if (const auto known = masks_.find(state); known != masks_.end()) return &known->second;
  const auto allowed = find_allowed(state);
  if (!allowed) return tl::unexpected(allowed.error());
  TokenMask mask = make_mask(*allowed);
  if (accepts(state)) {
    for (const int32_t end : trie_->ends()) mask.allow(end);
  }
  if (mask_bytes_ + mask.size_bytes() > k_most_mask_bytes) {
    masks_.clear();
    mask_bytes_ = 0;
  }
  mask_bytes_ += mask.size_bytes();
  return &(masks_[state] = std::move(mask));
}

Expected<TokenMasks::State> TokenMasks::read(State state, std::string_view bytes) {
  const uint64_t before = states_.work();
  for (const char byte : bytes) {
    state = states_.step(state, static_cast<uint8_t>(byte));
    const uint64_t free_work = k_work_per_byte * bytes.size();
    const uint64_t work = states_.work() - before;
    if (const auto checked = check_work(work - std::min(work, free_work)); !checked)
      return tl::unexpected(checked.error());
  }
  return state;
}

bool TokenMasks::is_full() const {
  return states_.size_bytes() >= k_most_state_bytes || states_.overflowed();
}

void TokenMasks::make_room() {
  if (states_.row_bytes() >= k_most_row_bytes) states_.drop_rows();
  if (!is_full()) return;
  states_.clear();
  masks_.clear();
  mask_bytes_ = 0;
  ++epoch_;
}

Expected<void> TokenMasks::check_work(uint64_t work) const {
  if (!states_.overflowed() && work <= k_most_work) return {};
  return fail(ErrorCode::invalid_argument,
              "the grammar is too ambiguous: the text can be read in too many ways");
}

/// Walks the vocabulary along the states, and leaves out subtrees that a state cannot read or reads
/// as a whole.
Expected<std::vector<TokenMasks::RankRange>> TokenMasks::find_allowed(State state) {
  const uint64_t before = states_.work();
  const auto nodes = trie_->nodes();
  std::vector<RankRange> allowed;
  const auto allow = [&](uint32_t first, uint32_t end) {
    if (first == end) return;
    if (!allowed.empty() && allowed.back().second == first) {
      allowed.back().second = end;
    } else {
      allowed.emplace_back(first, end);
    }
  };
  std::vector<const GrammarStates::Row *> rows(trie_->depth() + 1);  // by depth
  rows[0] = &states_.row(state);
  uint64_t n_visited = 0;
  for (uint32_t i = 0; i + 1 < nodes.size();) {
    const TokenTrie::Node &node = nodes[i];
    ++n_visited;
    const State to = (*rows[node.depth - 1U])[node.byte];
    if (to == GrammarStates::k_dead) {
      i = node.next;
      continue;
    }
    if (node.below != 0 && reads_all(to, trie_->below(node))) {
      allow(node.first_rank, nodes[node.next].first_rank);
      i = node.next;
      continue;
    }
    allow(node.first_rank, nodes[i + 1].first_rank);
    ++i;
    if (i == node.next) continue;  // no children
    rows[node.depth] = &states_.row(to);
    const uint64_t work = states_.work() - before + n_visited / k_nodes_per_work;
    if (const auto checked = check_work(work); !checked) return tl::unexpected(checked.error());
  }
  return allowed;
}

bool TokenMasks::reads_all(State state, const TokenTrie::Subtree &below) {
  for (uint32_t i = 0; i < below.n_chars; ++i) {
    const GrammarStates::Run &run = states_.run(state);
    if ((below.ascii & ~run.ascii).any() || (below.beyond_ascii && !run.beyond_ascii)) return false;
    if (run.next == state) return true;
    state = run.next;
  }
  return true;
}

TokenMask TokenMasks::make_mask(const std::vector<RankRange> &allowed) const {
  size_t n_allowed = 0;
  for (const auto &[first, end] : allowed) n_allowed += end - first;
  if (n_allowed <= trie_->n_ranked() / 2) {
    TokenMask mask(trie_->n_vocab());
    for (const auto &[first, end] : allowed) {
      for (uint32_t rank = first; rank < end; ++rank) mask.allow(trie_->token(rank));
    }
    return mask;
  }
  TokenMask mask = every_token_;
  uint32_t next = 0;
  const auto forbid_up_to = [&](uint32_t end) {
    for (uint32_t rank = next; rank < end; ++rank) mask.forbid(trie_->token(rank));
  };
  for (const auto &[first, end] : allowed) {
    forbid_up_to(first);
    next = end;
  }
  forbid_up_to(trie_->n_ranked());
  return mask;
}

}  // namespace patchbay
