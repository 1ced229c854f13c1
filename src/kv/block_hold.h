#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kv/block_pool.h"

namespace patchbay {

/// Blocks that cannot be evicted while it lives. Their pools outlive it.
class BlockHold {
 public:
  BlockHold() = default;
  BlockHold(BlockHold &&) = default;
  BlockHold &operator=(BlockHold &&) = delete;
  /// The last one first: what has been idle longest is evicted first, so that the blocks that
  /// others follow on stay longest.
  ~BlockHold() {
    for (size_t i = blocks_.size(); i > 0; --i)
      blocks_[i - 1].first->release(blocks_[i - 1].second);
  }

  void retain(BlockPool &pool, int32_t block) {
    add(pool, block);  // first: it may throw
    pool.retain(block);
  }
  /// A block that counts this object as a holder already.
  void add(BlockPool &pool, int32_t block) { blocks_.emplace_back(&pool, block); }

 private:
  std::vector<std::pair<BlockPool *, int32_t>> blocks_;
};

}  // namespace patchbay
