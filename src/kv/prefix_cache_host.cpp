#include <fmt/format.h>

#include <cassert>

#include "kv/prefix_cache.h"

namespace patchbay {

void PrefixCache::use_host_tier(BlockMemory &memory, size_t budget_bytes) {
  memory_ = &memory;
  host_ = HostTier(budget_bytes);
}

/// Copies a node's block to the host tier. False: it cannot be kept there; making room for it may
/// even have removed the node.
bool PrefixCache::save(NodeId node, Part part) {
  if (memory_ == nullptr) return false;
  const size_t n_bytes = memory_->block_bytes(part);
  if (!make_host_room(n_bytes) || !tree_.contains(node)) return false;
  const auto bytes = host_.add(key_of(node, part), n_bytes);
  if (!bytes) return false;
  memory_->read_block(part, block_of(node, part), *bytes);
  ++counters_.n_blocks_saved;
  return true;
}

/// Blocks are evicted leaf first, so what has been there longest is no one's parent.
bool PrefixCache::make_host_room(size_t n_bytes) {
  if (n_bytes > host_.budget_bytes()) return false;
  for (auto oldest = host_.oldest(); oldest && !host_.has_room(n_bytes); oldest = host_.oldest()) {
    const NodeId node = *oldest / n_parts;
    if (*oldest % n_parts == full) {
      remove(node);
    } else {
      drop_saved(node, window);
    }
  }
  return true;
}

void PrefixCache::drop_saved(NodeId node, Part part) {
  if (host_.remove(key_of(node, part))) ++counters_.n_blocks_dropped;
}

/// Shortens a path that follows on `n_before` tokens until all that the next token sees is there,
/// and what has to come back finds blocks beside those that the path has.
void PrefixCache::keep_to_room(Path &path, uint32_t n_before) const {
  while (path.n_tokens > 0 && !(has_window(path, n_before) && has_room(path, n_before, full) &&
                                has_room(path, n_before, window)))
    drop_last(path);
}

bool PrefixCache::has_room(const Path &path, uint32_t n_before, Part part) const {
  uint32_t n_missing = 0;
  uint32_t n_idle = 0;
  for (const NodeId node : needed(path, n_before, part)) {
    const int32_t block = block_of(node, part);
    if (block == BlockTable::k_none) {
      ++n_missing;
    } else if (tables_[part]->pool().is_idle(block)) {
      ++n_idle;
    }
  }
  if (n_missing == 0) return true;
  const BlockPool &pool = tables_[part]->pool();
  return n_missing + n_idle <= pool.n_free() + pool.n_idle();
}

/// Gives every node of the path the blocks that its next token sees, and holds all of these.
/// REQUIRES: keep_to_room() has been called.
BlockHold PrefixCache::bring_back(const Path &path, uint32_t n_before) {
  BlockHold held;
  for (const Part part : {full, window}) {
    for (const NodeId node : needed(path, n_before, part)) {
      const int32_t block = block_of(node, part);
      if (block != BlockTable::k_none) held.retain(tables_[part]->pool(), block);
    }
  }
  for (const Part part : {full, window}) {
    for (const NodeId node : needed(path, n_before, part)) {
      if (block_of(node, part) == BlockTable::k_none) restore(node, part, held);
    }
  }
  return held;
}

/// The bytes leave the host tier before a block is evicted, which finds room there then.
void PrefixCache::restore(NodeId node, Part part, BlockHold &held) {
  const HostBytes bytes = host_.take(key_of(node, part));
  const int32_t block = take_block(part).value_or(BlockTable::k_none);
  assert(block != BlockTable::k_none);
  held.add(tables_[part]->pool(), block);
  memory_->write_block(part, block, bytes.bytes());
  place(node, part, block);
  ++counters_.n_blocks_restored;
}

std::string PrefixCache::check_host_tier() const {
  size_t n_saved = 0;
  for (const auto &[node, blocks] : blocks_) {
    if (!is_there(node, full)) return fmt::format("node {} has no full block anywhere", node);
    for (const Part part : {full, window}) {
      if (!is_saved(node, part)) continue;
      ++n_saved;
      if (blocks[part] != BlockTable::k_none)
        return fmt::format("node {} has block {} and its bytes as well", node, blocks[part]);
    }
  }
  if (n_saved != host_.n_entries())
    return fmt::format("{} blocks are saved and {} belong to nodes", host_.n_entries(), n_saved);
  if (host_.size_bytes() > host_.budget_bytes()) {
    return fmt::format("the host tier holds {} bytes and may hold {}", host_.size_bytes(),
                       host_.budget_bytes());
  }
  const Counters &n = counters_;
  if (n.n_blocks_saved != n.n_blocks_restored + n.n_blocks_dropped + n_saved) {
    return fmt::format("{} blocks were saved, {} restored, {} dropped, and {} are there",
                       n.n_blocks_saved, n.n_blocks_restored, n.n_blocks_dropped, n_saved);
  }
  return {};
}

}  // namespace patchbay
