#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/rounding.h"
#include "kv/block_pool.h"
#include "kv/seq_pos.h"

namespace patchbay {

/// The contents of block `to` are to become those of `from`.
struct BlockCopy {
  int32_t from = 0;
  int32_t to = 0;

  bool operator==(const BlockCopy &) const = default;
};

/// The blocks of one sequence: those of positions [i * block_size, (i + 1) * block_size) at i.
struct BlockTable {
  static constexpr int32_t k_none = -1;  ///< where a block was given back; only at the front

  std::vector<int32_t> blocks;
  uint32_t n_tokens = 0;
  uint32_t n_dropped = 0;  ///< leading entries that are k_none

  bool operator==(const BlockTable &) const = default;
};

/// What one extend() changed, to be taken back or kept. Until then it counts as a holder of the
/// block that is copied, so that nobody writes into that: taking back finds it as it was.
struct BlockExtension {
  int32_t seq_id = 0;
  uint32_t n_tokens_before = 0;
  std::optional<BlockCopy>
      copy;  ///< its last block was shared and is to be copied before it is written
};

/// Which blocks each sequence has. Blocks are shared after a fork until one side writes. Pure
/// bookkeeping, no tensors. Engine thread.
class BlockTables {
 public:
  BlockTables(uint32_t n_blocks, uint32_t block_size) : pool_(n_blocks), block_size_(block_size) {}

  [[nodiscard]] uint32_t block_size() const { return block_size_; }
  [[nodiscard]] const BlockPool &pool() const { return pool_; }
  /// For the prefix cache, which keeps blocks in it.
  [[nodiscard]] BlockPool &pool() { return pool_; }
  [[nodiscard]] const std::map<int32_t, BlockTable> &tables() const { return tables_; }

  /// The table of a sequence; an empty one when it holds nothing.
  [[nodiscard]] const BlockTable &table(int32_t seq_id) const;

  /// Where a token lies: block * block_size + offset. Its block has not been dropped.
  [[nodiscard]] int32_t cell(const SeqPos &place) const;

  /// Room for `n_tokens` more tokens. All or nothing: nullopt, and nothing changed, when too few
  /// blocks are free.
  [[nodiscard]] std::optional<BlockExtension> extend(int32_t seq_id, uint32_t n_tokens);

  /// Takes extensions back, the last one first: blocks, tables and counts are as before them.
  void undo(const BlockExtension &extension);
  /// What it wrote stays.
  void keep(const BlockExtension &extension);

  /// Forgets the tokens from `n_tokens` on; none of the kept ones has been dropped.
  void truncate(int32_t seq_id, uint32_t n_tokens);

  /// Gives back the blocks that lie wholly before position `pos`.
  void drop_before(int32_t seq_id, uint32_t pos);

  /// Adds `n_tokens` tokens in blocks that are there already; k_none where one is not, which is
  /// then to be dropped. REQUIRES: the sequence holds whole blocks only.
  void adopt(int32_t seq_id, std::span<const int32_t> blocks, uint32_t n_tokens);

  /// Entry `i` becomes another block, of the same contents.
  void replace(int32_t seq_id, uint32_t i, int32_t block);

  /// `to` gets the tokens of `from`, sharing its blocks; what it held before is released.
  void fork(int32_t from, int32_t to);

  void release(int32_t seq_id);

 private:
  [[nodiscard]] uint32_t n_blocks_of(uint32_t n_tokens) const {
    return ceil_div(n_tokens, block_size_);
  }

  BlockPool pool_;
  uint32_t block_size_;
  std::map<int32_t, BlockTable> tables_;  // none is empty
};

}  // namespace patchbay
