#include "kv/block_pool.h"

#include <cassert>

namespace patchbay {

BlockPool::BlockPool(uint32_t n_blocks) : n_refs_(n_blocks, 0) {
  for (uint32_t block = 0; block < n_blocks; ++block) free_.insert(static_cast<int32_t>(block));
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
}

void BlockPool::release(int32_t block) {
  assert(n_refs_[static_cast<size_t>(block)] > 0);
  if (--n_refs_[static_cast<size_t>(block)] == 0) free_.insert(block);
}

}  // namespace patchbay
