#include "model/packing.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_affinity.h"
#include "base/log.h"

namespace patchbay {
namespace {

/// Rows that one thread packs without looking up: enough to forget the way to them.
constexpr size_t k_part_bytes = size_t{1} << 20U;

/// Tiles [first, last) of one expert.
struct Part {
  PackJob job;  // of the expert
  int64_t first = 0;
  int64_t last = 0;
  size_t i_shard = 0;
  uint8_t *tiles = nullptr;

  [[nodiscard]] std::span<const std::byte> rows() const {
    const int64_t first_row = first * k_product_tile;
    const int64_t last_row = std::min(last * k_product_tile, job.n_out);
    return {job.rows + static_cast<size_t>(first_row) * job.row_bytes,
            static_cast<size_t>(last_row - first_row) * job.row_bytes};
  }
};

void cut(const PackTask &task, std::vector<Part> &parts) {
  const int64_t n_tiles = n_product_tiles(task.job.n_out);
  const int64_t n_bytes = tile_bytes(task.job.format, task.job.n_in);
  const size_t tile_row_bytes = task.job.row_bytes * static_cast<size_t>(k_product_tile);
  const auto n_part = static_cast<int64_t>(std::max<size_t>(1, k_part_bytes / tile_row_bytes));
  for (int64_t expert = 0; expert < task.n_expert; ++expert) {
    PackJob job = task.job;
    job.rows += static_cast<size_t>(expert * job.n_out) * job.row_bytes;
    for (int64_t first = 0; first < n_tiles; first += n_part) {
      parts.push_back({.job = job,
                       .first = first,
                       .last = std::min(first + n_part, n_tiles),
                       .i_shard = task.i_shard,
                       .tiles = task.tiles + (expert * n_tiles + first) * n_bytes});
    }
  }
}

}  // namespace

void pack_weights(std::span<const PackTask> tasks, const PackListener &listener) {
  std::vector<Part> parts;
  for (const auto &task : tasks) cut(task, parts);
  std::atomic<size_t> next = 0;
  std::atomic<size_t> n_bytes_done = 0;
  const auto pack_one = [&] {
    const size_t i = next.fetch_add(1);
    if (i >= parts.size()) return false;
    pack_tiles(parts[i].job, parts[i].first, parts[i].last, parts[i].tiles);
    listener.release(parts[i].i_shard, parts[i].rows());
    n_bytes_done += parts[i].rows().size();
    return true;
  };
  std::vector<std::jthread> threads;
  const size_t n_threads = std::min<size_t>(n_allowed_cpus(), parts.size());
  try {
    while (threads.size() + 1 < n_threads) {
      threads.emplace_back([&pack_one] {
        while (pack_one()) continue;
      });
    }
  } catch (const std::system_error &error) {
    log().debug("weights are packed by {} threads: {}", threads.size() + 1, error.what());
  }
  size_t n_bytes_told = 0;
  const auto tell = [&] {
    const size_t n_bytes = n_bytes_done;
    listener.done(n_bytes - n_bytes_told);
    n_bytes_told = n_bytes;
  };
  while (pack_one()) tell();
  threads.clear();  // waits for them
  tell();
}

}  // namespace patchbay
