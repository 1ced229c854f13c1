#include "kv/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

namespace patchbay {

PrefixCache::PrefixCache(BlockTables &full_tables, BlockTables *window_tables, uint32_t n_swa)
    : tables_{&full_tables, window_tables},
      n_swa_(n_swa),
      block_size_(full_tables.block_size()),
      tree_(block_size_) {
  for (const Part part : {full, window}) {
    if (tables_[part] != nullptr) node_of_[part].resize(tables_[part]->pool().n_blocks());
  }
}

void PrefixCache::begin(int32_t seq_id, const std::string &tenant) {
  chains_[seq_id] = {.node = tree_.root(tenant)};
}

PrefixCache::Match PrefixCache::match(std::string_view tenant, const PrefixContent &content) const {
  const auto root = tree_.find_root(tenant);
  if (!root) return {};
  Path path = find_path(*root, content);
  keep_to_window(path, 0);
  Match match{.n_tokens = path.n_tokens};
  for (size_t i = 0; i < path.n_tokens / block_size_; ++i) {
    if (!tables_[full]->pool().is_idle(block_of(path.nodes[i], full)))
      match.n_tokens_in_use += block_size_;
  }
  return match;
}

/// As far as the contents go, whether or not the windows' blocks are there.
PrefixCache::Path PrefixCache::find_path(NodeId from, const PrefixContent &content) const {
  Path path;
  NodeId node = from;
  while (path.n_tokens < content.n_tokens()) {
    const PrefixContent next =
        content.slice(path.n_tokens, std::min(block_size_, content.n_tokens() - path.n_tokens));
    const auto whole = next.n_tokens() == block_size_ ? tree_.find(node, next) : std::nullopt;
    const auto [child, n_tokens] =
        whole ? PrefixTree::Beginning{*whole, block_size_} : tree_.find_beginning(node, next);
    if (n_tokens == 0) break;
    path.nodes.push_back(child);
    path.n_tokens += n_tokens;
    if (n_tokens < block_size_) break;
    node = child;
  }
  return path;
}

/// The block that the window of the next token after `n_tokens` begins in.
uint32_t PrefixCache::first_in_window(uint32_t n_tokens) const {
  return n_tokens + 1 > n_swa_ ? (n_tokens + 1 - n_swa_) / block_size_ : 0;
}

/// Shortens a path that follows on `n_before` tokens until all that the next token sees is there.
void PrefixCache::keep_to_window(Path &path, uint32_t n_before) const {
  if (tables_[window] == nullptr) return;
  const auto is_there = [&](NodeId node) { return block_of(node, window) != BlockTable::k_none; };
  const uint32_t i_first = n_before / block_size_;
  while (path.n_tokens > 0) {
    const uint32_t needed = first_in_window(n_before + path.n_tokens);
    const auto begin = path.nodes.begin() + (needed > i_first ? needed - i_first : 0);
    const auto missing = std::find_if_not(begin, path.nodes.end(), is_there);
    if (missing == path.nodes.end()) return;
    path.nodes.pop_back();
    path.n_tokens = static_cast<uint32_t>(path.nodes.size()) * block_size_;
  }
}

void PrefixCache::adopt(int32_t seq_id, const PrefixContent &content) {
  const auto found = chains_.find(seq_id);
  if (found == chains_.end()) return;
  Chain &chain = found->second;
  const uint32_t n_before = chain.n_blocks * block_size_;
  Path path = find_path(chain.node, content);
  keep_to_window(path, n_before);
  if (path.n_tokens <= chain.tail.n_tokens()) return;
  for (const Part part : {full, window}) {
    if (tables_[part] == nullptr) continue;
    std::vector<int32_t> blocks;
    for (const NodeId node : path.nodes) blocks.push_back(block_of(node, part));
    tables_[part]->truncate(seq_id, n_before);
    tables_[part]->adopt(seq_id, blocks, path.n_tokens);
  }
  if (tables_[window] != nullptr) {
    const uint32_t first = first_in_window(n_before + path.n_tokens);
    tables_[window]->drop_before(seq_id, first * block_size_);
  }
  const uint32_t n_whole = path.n_tokens / block_size_;
  if (n_whole > 0) chain.node = path.nodes[n_whole - 1];
  chain.n_blocks += n_whole;
  chain.tail = content.slice(n_whole * block_size_, path.n_tokens % block_size_);
}

void PrefixCache::append(int32_t seq_id, const PrefixContent &content) {
  const auto found = chains_.find(seq_id);
  if (found == chains_.end()) return;
  Chain &chain = found->second;
  chain.tail.append(content);
  uint32_t n_done = 0;
  for (; n_done + block_size_ <= chain.tail.n_tokens(); n_done += block_size_) {
    const auto node = find_or_add(chain.node, chain.tail.slice(n_done, block_size_));
    if (node) attach(*node, seq_id, chain.n_blocks);
    chain.node = node.value_or(PrefixTree::k_no_node);
    ++chain.n_blocks;
  }
  if (n_done > 0) chain.tail = chain.tail.slice(n_done, chain.tail.n_tokens() - n_done);
}

void PrefixCache::fork(int32_t from, int32_t to) {
  const auto found = chains_.find(from);
  if (found == chains_.end()) {
    chains_.erase(to);
  } else if (from != to) {
    const Chain copy = found->second;
    chains_[to] = copy;
  }
}

void PrefixCache::release(int32_t seq_id) {
  const auto found = chains_.find(seq_id);
  if (found == chains_.end()) return;
  const Chain chain = std::move(found->second);
  chains_.erase(found);
  const uint32_t n_tail = chain.tail.n_tokens();
  if (n_tail == 0 || tree_.find_beginning(chain.node, chain.tail).n_tokens == n_tail) return;
  if (const auto node = find_or_add(chain.node, chain.tail)) attach(*node, seq_id, chain.n_blocks);
}

std::optional<PrefixCache::NodeId> PrefixCache::find_or_add(NodeId parent, PrefixContent content) {
  if (const auto node = tree_.find(parent, content)) return node;
  remove_beginnings(parent, content);
  const auto node = tree_.add(parent, std::move(content));
  if (node) blocks_[*node] = {BlockTable::k_none, BlockTable::k_none};
  return node;
}

/// Blocks that hold nothing but the beginning of this one serve nobody any longer.
void PrefixCache::remove_beginnings(NodeId parent, const PrefixContent &content) {
  if (!tree_.contains(parent)) return;
  const std::vector<NodeId> children = tree_.children(parent);
  for (const NodeId child : children) {
    const PrefixContent &other = tree_.content(child);
    if (!tree_.is_full(child) && n_common(other, content) == other.n_tokens()) remove(child);
  }
}

void PrefixCache::attach(NodeId node, int32_t seq_id, uint32_t i_block) {
  for (const Part part : {full, window}) {
    if (tables_[part] != nullptr) attach(node, part, seq_id, i_block);
  }
}

/// The sequence's block becomes the node's, or else the node's the sequence's.
void PrefixCache::attach(NodeId node, Part part, int32_t seq_id, uint32_t i_block) {
  BlockTables &tables = *tables_[part];
  const int32_t own = tables.table(seq_id).blocks[i_block];
  int32_t &kept = blocks_.at(node)[part];
  if (own == BlockTable::k_none || own == kept) return;
  if (kept != BlockTable::k_none) {
    tables.replace(seq_id, i_block, kept);
    return;
  }
  kept = own;
  node_of_[part][static_cast<size_t>(own)] = node;
  tables.pool().keep(own);
}

void PrefixCache::detach(NodeId node, Part part) {
  int32_t &block = blocks_.at(node)[part];
  if (block == BlockTable::k_none) return;
  tables_[part]->pool().forget(block);
  node_of_[part][static_cast<size_t>(block)] = PrefixTree::k_no_node;
  block = BlockTable::k_none;
}

void PrefixCache::remove(NodeId node) {
  for (const NodeId gone : tree_.remove(node)) {
    detach(gone, full);
    detach(gone, window);
    blocks_.erase(gone);
  }
}

bool PrefixCache::evict(const BlockTables &tables) {
  const auto block = tables.pool().longest_idle();
  if (!block) return false;
  ++counters_.n_blocks_evicted;
  forget(part_of(tables), *block);
  return true;
}

bool PrefixCache::forget_last(const BlockTables &tables, int32_t seq_id) {
  constexpr uint32_t k_sequence_and_cache = 2;
  const BlockTable &held = tables.table(seq_id);
  if (held.n_tokens % block_size_ == 0) return false;  // nothing is written to its last block
  const int32_t last = held.blocks.back();
  if (!tables.pool().is_kept(last)) return false;
  if (tables.pool().n_refs()[static_cast<size_t>(last)] > k_sequence_and_cache) return false;
  forget(part_of(tables), last);
  return true;
}

/// Nothing can follow on a node without its full block; without the window's it still serves where
/// no token looks that far back.
void PrefixCache::forget(Part part, int32_t block) {
  const NodeId node = node_of_[part][static_cast<size_t>(block)];
  if (part == full) {
    remove(node);
  } else {
    detach(node, part);
  }
}

std::string PrefixCache::check_invariants() const {
  for (const Part part : {full, window}) {
    if (tables_[part] == nullptr) continue;
    const BlockPool &pool = tables_[part]->pool();
    for (uint32_t block = 0; block < pool.n_blocks(); ++block) {
      const NodeId node = node_of_[part][block];
      const auto i = static_cast<int32_t>(block);
      if (pool.is_kept(i) != (node != PrefixTree::k_no_node))
        return fmt::format("block {} is kept: {}, for node {}", block, pool.is_kept(i), node);
      if (node != PrefixTree::k_no_node && block_of(node, part) != i)
        return fmt::format("node {} has block {} instead of {}", node, block_of(node, part), i);
    }
  }
  if (blocks_.size() != tree_.n_nodes())
    return fmt::format("{} nodes have blocks and there are {}", blocks_.size(), tree_.n_nodes());
  return {};
}

}  // namespace patchbay
