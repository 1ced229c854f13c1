#include "kernels/attention_plan.h"

#include <algorithm>

namespace patchbay {
namespace {

/// Queries that read a tile of keys together: enough that widening the keys costs little beside
/// them, few enough that their sums stay in the nearest cache.
constexpr uint32_t k_queries = 32;

/// A tile is split over threads when it is more than this part of a thread's share.
constexpr uint64_t k_coarsest = 4;

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape &shape)
    : shape_(shape), n_state_(attention_state(shape, n_queries_max())) {}

uint32_t AttentionPlan::n_queries_max() const {
  return std::max(1U, k_queries / shape_.n_group()) * shape_.n_group();
}

void AttentionPlan::set(std::span<const AttentionRun> runs, uint32_t n_threads) {
  blocks_.clear();
  tiles_.clear();
  items_.clear();
  splits_.clear();
  cost_ = 0;
  const uint32_t n_rows_most = n_queries_max() / shape_.n_group();
  uint64_t total = 0;
  for (const auto &run : runs) {
    for (uint32_t i = 0; i < run.n_rows; i += n_rows_most) {
      const QueryTile tile{.first_row = run.first_row + i,
                           .n_rows = std::min(n_rows_most, run.n_rows - i),
                           .first_pos = run.first_pos + i,
                           .i_blocks = blocks_.size()};
      tiles_.push_back(tile);
      total += shape_.n_head_kv * cost_of(tile, 0, UINT32_MAX / k_partition_keys);
    }
    blocks_.insert(blocks_.end(), run.blocks.begin(), run.blocks.end());
  }
  const uint64_t most_whole = n_threads == 1 ? total : total / (k_coarsest * n_threads);
  for (uint32_t i = 0; i < tiles_.size(); ++i) add_items(i, most_whole);

  n_left_ = std::make_unique<std::atomic<uint32_t>[]>(splits_.size());
  size_t n_states = 0;
  for (size_t i = 0; i < splits_.size(); ++i) {
    n_left_[i] = splits_[i].n_partitions;
    n_states = splits_[i].first_state + splits_[i].n_partitions;
  }
  states_.resize(std::max(states_.size(), n_states * n_state_ / CacheLine::k_floats));
  scratch_.resize(n_threads);
  const size_t n_scratch = attention_scratch(shape_, n_queries_max());
  for (auto &scratch : scratch_) scratch.resize(n_scratch / CacheLine::k_floats);
}

uint64_t AttentionPlan::cost_of(const QueryTile &tile, uint32_t first_partition,
                                uint32_t end_partition) const {
  // Reading and widening a key costs about as much as two queries spend on it.
  constexpr uint64_t k_read = 2;
  const uint64_t first =
      std::max(shape_.first_seen(tile.first_pos), first_partition * k_partition_keys);
  const uint64_t end =
      std::min<uint64_t>(tile.end_pos(), uint64_t{end_partition} * k_partition_keys);
  return end <= first ? 1 : (end - first) * (uint64_t{tile.n_rows} * shape_.n_group() + k_read);
}

void AttentionPlan::add_items(uint32_t i_tile, uint64_t most_whole) {
  const QueryTile &tile = tiles_[i_tile];
  const uint32_t first = shape_.first_seen(tile.first_pos) / k_partition_keys;
  const uint32_t end = (tile.end_pos() - 1) / k_partition_keys + 1;
  const bool is_split = end - first > 1 && cost_of(tile, first, end) > most_whole;
  for (uint32_t i_head_kv = 0; i_head_kv < shape_.n_head_kv; ++i_head_kv) {
    AttentionItem item{.i_tile = i_tile, .i_head_kv = i_head_kv};
    if (is_split) {
      item.i_split = static_cast<uint32_t>(splits_.size());
      const size_t first_state =
          splits_.empty() ? 0 : splits_.back().first_state + splits_.back().n_partitions;
      splits_.push_back(
          {.first_partition = first, .n_partitions = end - first, .first_state = first_state});
    }
    const uint32_t step = is_split ? 1 : end - first;
    for (uint32_t partition = first; partition < end; partition += step) {
      item.first_partition = partition;
      item.end_partition = partition + step;
      item.cost_before = cost_;
      cost_ += cost_of(tile, item.first_partition, item.end_partition);
      items_.push_back(item);
    }
  }
}

std::span<const AttentionItem> AttentionPlan::share(uint32_t i_thread, uint32_t n_threads) const {
  const auto begin_of = [&](uint64_t thread) {
    const uint64_t bound = (cost_ * thread + n_threads - 1) / n_threads;
    return std::ranges::lower_bound(items_, bound, {}, &AttentionItem::cost_before);
  };
  return {begin_of(i_thread), i_thread + 1 == n_threads ? items_.end() : begin_of(i_thread + 1)};
}

bool AttentionPlan::finish(uint32_t i_split) {
  // What the others wrote has to be seen by the one that merges.
  if (n_left_[i_split].fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  n_left_[i_split].store(splits_[i_split].n_partitions, std::memory_order_relaxed);
  return true;
}

}  // namespace patchbay
