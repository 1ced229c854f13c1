#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rounding.h"
#include "kernels/attention_tile.h"

namespace patchbay {

/// Keys in a partition: each has a softmax of its own, and those are merged in order of position.
/// Cutting at fixed positions lets threads share a long sequence without moving a bit.
constexpr uint32_t k_partition_keys = 256;

/// What is the same in every step.
struct AttentionShape {
  uint32_t n_embd_head = 0;
  uint32_t n_head = 0;
  uint32_t n_head_kv = 0;
  uint32_t n_swa = 0;  ///< tokens that a token sees, itself included; 0: all before it
  uint32_t block_size = 32;
  float scale = 1;  ///< on q k^T

  [[nodiscard]] uint32_t n_group() const { return n_head / n_head_kv; }
  [[nodiscard]] uint32_t n_padded() const { return round_up(n_embd_head, k_row_padding); }
  /// First position that a token at `pos` sees.
  [[nodiscard]] uint32_t first_seen(uint32_t pos) const {
    return n_swa == 0 || pos < n_swa ? 0 : pos + 1 - n_swa;
  }
};

/// Rows of a step at consecutive positions of one sequence.
struct AttentionRun {
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t first_pos = 0;
  std::span<const int32_t> blocks;  ///< the sequence's table, as far as its last position
};

/// A few rows of a run that read the cache together.
struct QueryTile {
  uint32_t first_row = 0;
  uint32_t n_rows = 0;
  uint32_t first_pos = 0;
  size_t i_blocks = 0;  ///< where the sequence's table begins in AttentionPlan::blocks

  [[nodiscard]] uint32_t end_pos() const { return first_pos + n_rows; }
};

/// What one thread computes without a break: a tile's queries of one group of heads against some of
/// its partitions.
struct AttentionItem {
  static constexpr uint32_t k_whole = UINT32_MAX;

  uint32_t i_tile = 0;
  uint32_t i_head_kv = 0;
  uint32_t first_partition = 0;
  uint32_t end_partition = 0;
  uint32_t i_split = k_whole;  ///< into AttentionPlan::splits when the item is a part of its tile
  uint64_t cost_before = 0;    ///< of all items in front of this one
};

/// A tile and group of heads whose partitions are items of their own. Whoever finishes the last of
/// them merges all.
struct AttentionSplit {
  uint32_t first_partition = 0;
  uint32_t n_partitions = 0;
  size_t first_state = 0;  ///< of its states in AttentionPlan::states
};

/// Memory at the alignment of the widest loads.
struct alignas(64) CacheLine {
  static constexpr size_t k_floats = 16;
  float values[k_floats];
};

/// One step's attention, cut into items. Made on the engine thread, then run by the compute threads
/// once per layer.
class AttentionPlan {
 public:
  explicit AttentionPlan(const AttentionShape &shape);

  /// Plans a step for `n_threads` threads. The runs' tables are copied.
  void set(std::span<const AttentionRun> runs, uint32_t n_threads);

  [[nodiscard]] const AttentionShape &shape() const { return shape_; }
  [[nodiscard]] const std::vector<QueryTile> &tiles() const { return tiles_; }
  [[nodiscard]] const std::vector<AttentionItem> &items() const { return items_; }
  [[nodiscard]] const std::vector<AttentionSplit> &splits() const { return splits_; }
  /// Of all items, in queries times keys.
  [[nodiscard]] uint64_t cost() const { return cost_; }
  [[nodiscard]] const int32_t *blocks(const QueryTile &tile) const {
    return blocks_.data() + tile.i_blocks;
  }
  /// The items of one of `n_threads` threads, an even share of the cost.
  [[nodiscard]] std::span<const AttentionItem> share(uint32_t i_thread, uint32_t n_threads) const;

  /// Queries in the largest tile.
  [[nodiscard]] uint32_t n_queries_max() const;
  /// Floats of a tile's state: acc, max and sum of each query.
  [[nodiscard]] size_t n_state() const { return n_state_; }

  /// Where a split's partition leaves its state.
  [[nodiscard]] float *state(const AttentionSplit &split, uint32_t partition) {
    const size_t i = split.first_state + partition - split.first_partition;
    return states_.data()->values + i * n_state_;
  }
  /// One partition of a split is done; true for the last one, and then all are open again for the
  /// next layer. Any compute thread.
  [[nodiscard]] bool finish(uint32_t i_split);

  /// Scratch memory of a thread.
  [[nodiscard]] float *scratch(uint32_t i_thread) { return scratch_[i_thread].data()->values; }

 private:
  void add_items(uint32_t i_tile, uint64_t most_whole);
  [[nodiscard]] uint64_t cost_of(const QueryTile &tile, uint32_t first_partition,
                                 uint32_t end_partition) const;

  AttentionShape shape_;
  std::vector<int32_t> blocks_;
  std::vector<QueryTile> tiles_;
  std::vector<AttentionItem> items_;
  std::vector<AttentionSplit> splits_;
  std::unique_ptr<std::atomic<uint32_t>[]> n_left_;  // per split
  size_t n_state_ = 0;
  std::vector<CacheLine> states_;
  std::vector<std::vector<CacheLine>> scratch_;
  uint64_t cost_ = 0;
};

/// Floats of a tile's state, and of the scratch that one thread needs for a tile.
[[nodiscard]] size_t attention_state(const AttentionShape &shape, uint32_t n_queries);
[[nodiscard]] size_t attention_scratch(const AttentionShape &shape, uint32_t n_queries);

}  // namespace patchbay
