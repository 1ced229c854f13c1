#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/rounding.h"

namespace patchbay {
namespace {

const AttentionKernels &kernels_of(Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return k_attention_avx512;
  if (isa >= Isa::avx2) return k_attention_avx2;
#else
  (void)isa;
#endif
  return k_attention_plain;
}

void copy_f32(const CacheRows &rows) {
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    std::memcpy(rows.dst + i * rows.dst_stride, src, rows.n * sizeof(float));
  }
}

size_t whole_lines(size_t n_floats) { return round_up(n_floats, CacheLine::k_floats); }

/// One more cache line than the row, so that the same column of many rows does not meet in one set
/// of the nearest cache.
size_t stride_of(const AttentionShape &shape) { return shape.n_padded() + k_row_padding; }

/// Acc, max and sum of the queries of a tile.
struct State {
  State(float *memory, size_t n_queries, size_t n_padded)
      : acc(memory), max(acc + n_queries * n_padded), sum(max + n_queries), n_padded_(n_padded) {}

  void clear(size_t i) const {
    max[i] = -std::numeric_limits<float>::infinity();
    sum[i] = 0;
    std::fill_n(acc + i * n_padded_, n_padded_, 0.0F);
  }

  /// Adds what query i has seen of a later partition.
  void merge(const State &later, size_t i) const {
    const float largest = std::max(max[i], later.max[i]);
    const float factor = std::exp(max[i] - largest);
    const float factor_later = std::exp(later.max[i] - largest);
    max[i] = largest;
    sum[i] = sum[i] * factor + later.sum[i] * factor_later;
    float *mine = acc + i * n_padded_;
    const float *others = later.acc + i * n_padded_;
    for (size_t j = 0; j < n_padded_; ++j) mine[j] = mine[j] * factor + others[j] * factor_later;
  }

  void copy(const State &other, size_t i) const {
    max[i] = other.max[i];
    sum[i] = other.sum[i];
    std::copy_n(other.acc + i * n_padded_, n_padded_, acc + i * n_padded_);
  }

  float *acc;
  float *max;
  float *sum;

 private:
  size_t n_padded_;
};

/// What one thread does, over its scratch memory.
class Worker {
 public:
  Worker(AttentionPlan &plan, const AttentionCache &cache, const float *q, float *out, Isa isa,
         float *scratch)
      : plan_(plan),
        shape_(plan.shape()),
        cache_(cache),
        q_(q),
        out_(out),
        kernels_(kernels_of(isa)),
        widen_(widen_of(cache.number)),
        n_padded_(shape_.n_padded()),
        stride_(stride_of(shape_)),
        n_queries_max_(plan.n_queries_max()),
        k_rows_(scratch),
        v_rows_(k_rows_ + k_tile_keys * stride_),
        queries_(v_rows_ + k_tile_keys * stride_),
        weights_(queries_ + n_queries_max_ * n_padded_),
        partition_(weights_ + n_queries_max_ * k_tile_keys),
        total_(partition_ + plan.n_state()),
        factors_(total_ + plan.n_state()) {}

  void run(const AttentionItem &item) {
    tile_ = &plan_.tiles()[item.i_tile];
    i_head_kv_ = item.i_head_kv;
    load_queries();
    if (item.i_split != AttentionItem::k_whole) {
      const AttentionSplit &split = plan_.splits()[item.i_split];
      attend(item.first_partition, state(plan_.state(split, item.first_partition)));
      if (plan_.finish(item.i_split)) merge(split);
      return;
    }
    const State total = state(total_);
    for (uint32_t partition = item.first_partition; partition < item.end_partition; ++partition) {
      const State seen = state(partition_);
      attend(partition, seen);
      add(partition, seen, total);
    }
    store(total);
  }

 private:
  using Widen = void (*)(const CacheRows &);

  [[nodiscard]] Widen widen_of(CacheNumber number) const {
    if (number == CacheNumber::f32) return copy_f32;
    return number == CacheNumber::f16 ? kernels_.widen_f16 : kernels_.widen_q8_0;
  }

  [[nodiscard]] size_t n_queries() const { return size_t{tile_->n_rows} * shape_.n_group(); }
  [[nodiscard]] State state(float *memory) const { return {memory, n_queries_max_, n_padded_}; }
  [[nodiscard]] uint32_t pos_of(size_t i_query) const {
    return tile_->first_pos + static_cast<uint32_t>(i_query / shape_.n_group());
  }

  /// Where query i of the tile is in q and out.
  [[nodiscard]] size_t place_of(size_t i_query) const {
    const size_t row = tile_->first_row + i_query / shape_.n_group();
    const size_t head = size_t{i_head_kv_} * shape_.n_group() + i_query % shape_.n_group();
    return (row * shape_.n_head + head) * shape_.n_embd_head;
  }

  void load_queries() {
    for (size_t i = 0; i < n_queries(); ++i) {
      const float *from = q_ + place_of(i);
      float *to = queries_ + i * n_padded_;
      for (size_t j = 0; j < shape_.n_embd_head; ++j) to[j] = from[j] * shape_.scale;
      std::fill(to + shape_.n_embd_head, to + n_padded_, 0.0F);
    }
  }

  /// The part of [first, end) that a query sees, counted from `first`.
  [[nodiscard]] KeyRange seen(size_t i_query, uint32_t first, uint32_t end) const {
    const uint32_t pos = pos_of(i_query);
    const uint32_t from = std::max(first, shape_.first_seen(pos));
    const uint32_t to = std::min(end, pos + 1);
    return from < to ? KeyRange{from - first, to - first} : KeyRange{0, 0};
  }

  /// Fills `state` with what the tile's queries see of one partition.
  void attend(uint32_t partition, const State &state) {
    for (size_t i = 0; i < n_queries(); ++i) state.clear(i);
    const uint32_t first = partition * k_partition_keys;
    const uint32_t end = std::min(first + k_partition_keys, tile_->end_pos());
    const uint32_t first_seen = std::max(first, shape_.first_seen(tile_->first_pos));
    for (uint32_t pos = first_seen / k_tile_keys * k_tile_keys; pos < end; pos += k_tile_keys)
      attend_tile(pos, std::max(pos, first_seen), std::min(pos + k_tile_keys, end), state);
  }

  void attend_tile(uint32_t tile_pos, uint32_t first, uint32_t end, const State &state) {
    const bool is_direct = reads_in_place();
    AttentionTile tile{
        .n_padded = n_padded_, .k = k_rows_, .v = v_rows_, .stride_bytes = 4 * stride_};
    if (is_direct) {
      const size_t from = place_in_cache(tile_pos);
      tile.k = static_cast<const char *>(cache_.k) + from;
      tile.v = static_cast<const char *>(cache_.v) + from;
      tile.stride_bytes = cache_.row_bytes;
      prefetch(tile.v, end - tile_pos);
      if (end < tile_->end_pos())
        prefetch(static_cast<const char *>(cache_.k) + place_in_cache(end), k_tile_keys);
    } else {
      load_keys(tile_pos, first, end);
    }
    KeyRange ranges[k_most_ranges];
    // A group may have more heads than there are ranges here.
    for (size_t done = 0; done < n_queries(); done += k_most_ranges) {
      tile.n_queries = std::min(k_most_ranges, n_queries() - done);
      for (size_t i = 0; i < tile.n_queries; ++i) ranges[i] = seen(done + i, tile_pos, end);
      tile.q = queries_ + done * n_padded_;
      tile.ranges = ranges;
      tile.max = state.max + done;
      tile.sum = state.sum + done;
      tile.acc = state.acc + done * n_padded_;
      tile.weights = weights_ + done * k_tile_keys;
      tile.factors = factors_ + done;
      (is_direct ? kernels_.attend_f16 : kernels_.attend)(tile);
    }
  }

  /// Few queries widen keys as they go: what they wait for is memory, and writing the widened rows
  /// would keep it from being asked for early. Whole tiles, which may be read to their end, only.
  [[nodiscard]] bool reads_in_place() const {
    constexpr size_t k_few = 4;
    return cache_.number == CacheNumber::f16 && n_queries() <= k_few &&
           n_padded_ == shape_.n_embd_head && shape_.block_size % k_tile_keys == 0;
  }

  /// Asks for rows while others are computed.
  void prefetch(const void *rows, size_t n_rows) const {
    constexpr size_t k_line_bytes = 64;
    for (size_t i = 0; i < n_rows * cache_.row_bytes; i += k_line_bytes)
      __builtin_prefetch(static_cast<const char *>(rows) + i);
  }

  /// Bytes from the cache's begin to the keys of this head at `pos`.
  [[nodiscard]] size_t place_in_cache(uint32_t pos) const {
    const auto block = static_cast<size_t>(plan_.blocks(*tile_)[pos / shape_.block_size]);
    const size_t row = (block * shape_.n_head_kv + i_head_kv_) * shape_.block_size;
    return (row + pos % shape_.block_size) * cache_.row_bytes;
  }

  /// Widens keys and values of positions [first, end) to where they belong in the tile.
  void load_keys(uint32_t tile_pos, uint32_t first, uint32_t end) {
    for (uint32_t pos = first; pos < end;) {
      const uint32_t n = std::min(end - pos, shape_.block_size - pos % shape_.block_size);
      const size_t from = place_in_cache(pos);
      const size_t to = (pos - tile_pos) * stride_;
      widen(cache_.k, from, n, k_rows_ + to);
      widen(cache_.v, from, n, v_rows_ + to);
      pos += n;
    }
  }

  void widen(const void *cache, size_t from, size_t n_rows, float *to) {
    widen_({.src = static_cast<const char *>(cache) + from,
            .src_stride_bytes = cache_.row_bytes,
            .n_rows = n_rows,
            .n = shape_.n_embd_head,
            .dst = to,
            .dst_stride = stride_});
  }

  /// Adds a partition to the total of those before it. A query's first one is its total, and one of
  /// which it sees nothing changes nothing.
  void add(uint32_t partition, const State &seen_there, const State &total) const {
    const uint32_t first = partition * k_partition_keys;
    for (size_t i = 0; i < n_queries(); ++i) {
      const KeyRange range = seen(i, first, first + k_partition_keys);
      if (range.first == range.end) continue;
      if (shape_.first_seen(pos_of(i)) >= first) {
        total.copy(seen_there, i);
      } else {
        total.merge(seen_there, i);
      }
    }
  }

  void merge(const AttentionSplit &split) {
    const State total = state(total_);
    for (uint32_t i = 0; i < split.n_partitions; ++i) {
      const uint32_t partition = split.first_partition + i;
      add(partition, state(plan_.state(split, partition)), total);
    }
    store(total);
  }

  void store(const State &total) const {
    for (size_t i = 0; i < n_queries(); ++i) {
      const float factor = 1 / total.sum[i];
      const float *from = total.acc + i * n_padded_;
      float *to = out_ + place_of(i);
      for (size_t j = 0; j < shape_.n_embd_head; ++j) to[j] = from[j] * factor;
    }
  }

  static constexpr size_t k_most_ranges = 64;

  AttentionPlan &plan_;
  const AttentionShape &shape_;
  const AttentionCache &cache_;
  const float *q_;
  float *out_;
  const AttentionKernels &kernels_;
  Widen widen_;
  size_t n_padded_;
  size_t stride_;
  size_t n_queries_max_;
  float *k_rows_;
  float *v_rows_;
  float *queries_;
  float *weights_;
  float *partition_;
  float *total_;
  float *factors_;
  const QueryTile *tile_ = nullptr;
  uint32_t i_head_kv_ = 0;
};

}  // namespace

size_t attention_state(const AttentionShape &shape, uint32_t n_queries) {
  return whole_lines(n_queries * (size_t{shape.n_padded()} + 2));
}

size_t attention_scratch(const AttentionShape &shape, uint32_t n_queries) {
  const size_t n_padded = shape.n_padded();
  const size_t keys_and_values = 2 * stride_of(shape) * k_tile_keys;
  const size_t queries_and_weights = n_queries * (n_padded + k_tile_keys);
  const size_t states = 2 * attention_state(shape, n_queries);
  return keys_and_values + queries_and_weights + states + whole_lines(n_queries);
}

void run_attention(AttentionPlan &plan, const AttentionCache &cache, const float *q, float *out,
                   Isa isa, uint32_t i_thread, uint32_t n_threads) {
  Worker worker(plan, cache, q, out, isa, plan.scratch(i_thread));
  for (const auto &item : plan.share(i_thread, n_threads)) worker.run(item);
}

}  // namespace patchbay
