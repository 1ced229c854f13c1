#include "kv/prefix_cache.h"

#include <fmt/format.h>

#include <algorithm>

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
    const int32_t block = block_of(path.nodes[i], full);
    if (block != BlockTable::k_none && !tables_[full]->pool().is_idle(block))
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

/// The nodes of a path that follows on `n_before` tokens whose blocks its next token sees.
std::span<const PrefixCache::NodeId> PrefixCache::needed(const Path &path, uint32_t n_before,
                                                         Part part) const {
  if (tables_[part] == nullptr) return {};
  if (part == full) return path.nodes;
  const uint32_t i_path = n_before / block_size_;
  const uint32_t i_first = std::max(first_in_window(n_before + path.n_tokens), i_path);
  return std::span(path.nodes).subspan(std::min<size_t>(i_first - i_path, path.nodes.size()));
}

bool PrefixCache::has_window(const Path &path, uint32_t n_before) const {
  return std::ranges::all_of(needed(path, n_before, window),
                             [this](NodeId node) { return is_there(node, window); });
}

/// Shortens a path that follows on `n_before` tokens until all that the next token sees is there.
void PrefixCache::keep_to_window(Path &path, uint32_t n_before) const {
  while (path.n_tokens > 0 && !has_window(path, n_before)) drop_last(path);
}

void PrefixCache::drop_last(Path &path) const {
  path.nodes.pop_back();
  path.n_tokens = static_cast<uint32_t>(path.nodes.size()) * block_size_;
}

void PrefixCache::adopt(int32_t seq_id, const PrefixContent &content) {
  const auto found = chains_.find(seq_id);
  if (found == chains_.end()) return;
  Chain &chain = found->second;
  const uint32_t n_before = chain.n_blocks * block_size_;
  Path path = find_path(chain.node, content);
  keep_to_room(path, n_before);
  if (path.n_tokens <= chain.tail.n_tokens()) return;
  const BlockHold held = bring_back(path, n_before);
  counters_.n_tokens_hit += path.n_tokens - chain.tail.n_tokens();
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
    chains_[to] = found->second;
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
  const int32_t kept = block_of(node, part);
  if (own == BlockTable::k_none || own == kept) return;
  if (kept != BlockTable::k_none) {
    tables.replace(seq_id, i_block, kept);
    return;
  }
  drop_saved(node, part);
  place(node, part, own);
}

/// The block, which is in use, becomes the node's.
void PrefixCache::place(NodeId node, Part part, int32_t block) {
  blocks_.at(node)[part] = block;
  node_of_[part][static_cast<size_t>(block)] = node;
  tables_[part]->pool().keep(block);
}

/// Makes room if it has to.
std::optional<int32_t> PrefixCache::take_block(Part part) {
  BlockTables &tables = *tables_[part];
  auto block = tables.pool().take();
  while (!block && evict(tables)) block = tables.pool().take();
  return block;
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
    for (const Part part : {full, window}) {
      detach(gone, part);
      drop_saved(gone, part);
    }
    blocks_.erase(gone);
  }
}

bool PrefixCache::evict(const BlockTables &tables) {
  const auto block = tables.pool().longest_idle();
  if (block) give_up(tables, *block);
  return block.has_value();
}

bool PrefixCache::give_up_last(const BlockTables &tables, int32_t seq_id) {
  const BlockTable &table = tables.table(seq_id);
  if (table.n_tokens % block_size_ == 0) return false;
  const int32_t last = table.blocks.back();
  constexpr uint32_t k_cache_and_sequence = 2;
  const BlockPool &pool = tables.pool();
  if (!pool.is_kept(last) || pool.n_refs()[static_cast<size_t>(last)] > k_cache_and_sequence)
    return false;
  give_up(tables, last);
  return true;
}

/// Nothing can follow on a node without its full block; without the window's it still serves where
/// no token looks that far back.
void PrefixCache::give_up(const BlockTables &tables, int32_t block) {
  const Part part = &tables == tables_[full] ? full : window;
  const NodeId node = node_of_[part][static_cast<size_t>(block)];
  ++counters_.n_blocks_evicted;
  const bool saved = save(node, part);
  if (!tree_.contains(node)) return;  // it followed on one that the host tier had to give up
  if (saved || part == window) {
    detach(node, part);
  } else {
    remove(node);
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
  return check_host_tier();
}

}  // namespace patchbay
