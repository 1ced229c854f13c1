#include "kv/block_tables.h"

#include <algorithm>
#include <cassert>

namespace patchbay {

const BlockTable &BlockTables::table(int32_t seq_id) const {
  static const BlockTable empty;
  const auto found = tables_.find(seq_id);
  return found == tables_.end() ? empty : found->second;
}

int32_t BlockTables::cell(const SeqPos &place) const {
  const auto pos = static_cast<uint32_t>(place.pos);
  const BlockTable &held = table(place.seq_id);
  assert(pos < held.n_tokens && held.blocks[pos / block_size_] != BlockTable::k_none);
  return held.blocks[pos / block_size_] * static_cast<int32_t>(block_size_) +
         static_cast<int32_t>(pos % block_size_);
}

std::optional<BlockExtension> BlockTables::extend(int32_t seq_id, uint32_t n_tokens) {
  const BlockTable &before = table(seq_id);
  BlockExtension extension{.seq_id = seq_id, .n_tokens_before = before.n_tokens};
  if (n_tokens == 0) return extension;
  const bool writes_into_last = before.n_tokens % block_size_ != 0;
  const bool copies = writes_into_last && pool_.is_shared(before.blocks.back());
  const uint32_t n_blocks = n_blocks_of(before.n_tokens + n_tokens);
  const auto n_new = n_blocks - static_cast<uint32_t>(before.blocks.size());
  if (n_new + (copies ? 1U : 0U) > pool_.n_free()) return std::nullopt;

  const auto take = [this] {
    const auto block = pool_.take();
    assert(block);
    return block.value_or(BlockTable::k_none);
  };
  BlockTable &extended = tables_[seq_id];
  if (copies) {
    extension.copy = {.from = extended.blocks.back(), .to = take()};
    extended.blocks.back() = extension.copy->to;
  }
  while (extended.blocks.size() < n_blocks) extended.blocks.push_back(take());
  extended.n_tokens += n_tokens;
  return extension;
}

void BlockTables::undo(const BlockExtension &extension) {
  truncate(extension.seq_id, extension.n_tokens_before);
  if (!extension.copy) return;
  pool_.release(extension.copy->to);
  tables_.at(extension.seq_id).blocks.back() = extension.copy->from;
}

void BlockTables::keep(const BlockExtension &extension) {
  if (extension.copy) pool_.release(extension.copy->from);
}

void BlockTables::truncate(int32_t seq_id, uint32_t n_tokens) {
  const auto found = tables_.find(seq_id);
  if (found == tables_.end()) return;
  BlockTable &held = found->second;
  if (n_tokens >= held.n_tokens) return;
  assert(n_tokens == 0 || held.n_dropped <= n_blocks_of(n_tokens));
  while (held.blocks.size() > n_blocks_of(n_tokens)) {
    if (held.blocks.back() != BlockTable::k_none) pool_.release(held.blocks.back());
    held.blocks.pop_back();
  }
  held.n_tokens = n_tokens;
  if (n_tokens == 0) tables_.erase(found);
}

void BlockTables::drop_before(int32_t seq_id, uint32_t pos) {
  const auto found = tables_.find(seq_id);
  if (found == tables_.end()) return;
  BlockTable &held = found->second;
  const auto n_before =
      std::min<uint32_t>(pos / block_size_, static_cast<uint32_t>(held.blocks.size()));
  for (; held.n_dropped < n_before; ++held.n_dropped) {
    int32_t &block = held.blocks[held.n_dropped];
    if (block != BlockTable::k_none) pool_.release(block);
    block = BlockTable::k_none;
  }
}

void BlockTables::adopt(int32_t seq_id, std::span<const int32_t> blocks, uint32_t n_tokens) {
  if (n_tokens == 0) return;
  BlockTable &held = tables_[seq_id];
  assert(held.n_tokens % block_size_ == 0 && blocks.size() == n_blocks_of(n_tokens));
  for (const int32_t block : blocks) {
    if (block != BlockTable::k_none) pool_.retain(block);
  }
  held.blocks.insert(held.blocks.end(), blocks.begin(), blocks.end());
  held.n_tokens += n_tokens;
}

void BlockTables::replace(int32_t seq_id, uint32_t i, int32_t block) {
  int32_t &entry = tables_.at(seq_id).blocks[i];
  pool_.retain(block);
  pool_.release(entry);
  entry = block;
}

void BlockTables::fork(int32_t from, int32_t to) {
  if (from == to) return;
  release(to);
  const BlockTable shared = table(from);
  if (shared.n_tokens == 0) return;
  for (const int32_t block : shared.blocks) {
    if (block != BlockTable::k_none) pool_.retain(block);
  }
  tables_[to] = shared;
}

void BlockTables::release(int32_t seq_id) { truncate(seq_id, 0); }

}  // namespace patchbay
