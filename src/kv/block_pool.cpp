#include "kv/block_pool.h"

#include <cassert>

namespace patchbay {

BlockPool::BlockPool(uint32_t n_blocks)
    : n_refs_(n_blocks, 0), is_kept_(n_blocks, false), idle_since_(n_blocks, 0) {
  for (uint32_t block = 0; block < n_blocks; ++block) free_.insert(static_cast<int32_t>(block));
}

std::optional<int32_t> BlockPool::longest_idle() const {
  if (idle_.empty()) return std::nullopt;
  return idle_.begin()->second;
}

uint32_t BlockPool::end() const {
  size_t end = n_refs_.size();
  while (end > 0 && n_refs_[end - 1] == 0) --end;
  return static_cast<uint32_t>(end);
}

std::optional<int32_t> BlockPool::take() {
  if (free_.empty()) return std::nullopt;
  const int32_t block = *free_.begin();
  free_.erase(free_.begin());
  n_refs_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::retain(int32_t block) {
  assert(n_refs_[static_cast<size_t>(block)] > 0);
  ++n_refs_[static_cast<size_t>(block)];
  update_idle(block);
}

void BlockPool::release(int32_t block) {
  assert(n_refs_[static_cast<size_t>(block)] > (is_kept(block) ? 1U : 0U));
  if (--n_refs_[static_cast<size_t>(block)] == 0) free_.insert(block);
  update_idle(block);
}

void BlockPool::keep(int32_t block) {
  assert(!is_kept(block));
  is_kept_[static_cast<size_t>(block)] = true;
  retain(block);
}

void BlockPool::forget(int32_t block) {
  assert(is_kept(block));
  is_kept_[static_cast<size_t>(block)] = false;
  release(block);
}

void BlockPool::update_idle(int32_t block) {
  const auto i = static_cast<size_t>(block);
  const bool idle_now = is_kept_[i] && n_refs_[i] == 1;
  if (idle_now == (idle_since_[i] > 0)) return;
  if (idle_now) {
    idle_since_[i] = ++n_times_idle_;
    idle_.emplace(idle_since_[i], block);
  } else {
    idle_.erase(idle_since_[i]);
    idle_since_[i] = 0;
  }
}

}  // namespace patchbay
