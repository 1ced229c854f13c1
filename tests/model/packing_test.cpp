#include "model/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/cpu_affinity.h"
#include "model/packed_weight.h"

namespace patchbay {
namespace {

/// Random rows of a weight with some experts, and room for their tiles.
struct Rows {
  ggml_type type;
  int64_t n_in;
  int64_t n_out;
  int64_t n_expert;
  size_t i_shard = 0;
  WeightFormat format = *weight_format(type);
  size_t row_bytes = ggml_row_size(type, n_in);
  std::vector<std::byte> rows = std::vector<std::byte>(expert_bytes() * as_size(n_expert));
  std::vector<uint8_t> tiles = std::vector<uint8_t>(expert_tile_bytes() * as_size(n_expert), 0xAA);

  Rows(ggml_type type_, int64_t n_in_, int64_t n_out_, int64_t n_expert_)
      : type(type_), n_in(n_in_), n_out(n_out_), n_expert(n_expert_) {
    std::mt19937 random(static_cast<uint32_t>(n_out));
    for (auto &byte : rows) byte = static_cast<std::byte>(random());
  }

  [[nodiscard]] static size_t as_size(int64_t n) { return static_cast<size_t>(n); }
  [[nodiscard]] size_t expert_bytes() const { return row_bytes * as_size(n_out); }
  [[nodiscard]] size_t expert_tile_bytes() const {
    return as_size(n_product_tiles(n_out) * tile_bytes(format, n_in));
  }
  [[nodiscard]] PackJob job(size_t expert = 0) const {
    return {format, rows.data() + expert * expert_bytes(), row_bytes, n_in, n_out};
  }
  [[nodiscard]] PackTask task() {
    return {.job = job(), .n_expert = n_expert, .i_shard = i_shard, .tiles = tiles.data()};
  }

  [[nodiscard]] std::vector<uint8_t> packed_one_after_the_other() const {
    std::vector<uint8_t> packed(tiles.size(), 0xAA);  // as tiles: packing leaves gaps alone
    for (size_t expert = 0; expert < as_size(n_expert); ++expert) {
      pack_tiles(job(expert), 0, n_product_tiles(n_out),
                 packed.data() + expert * expert_tile_bytes());
    }
    return packed;
  }
};

/// What a listener was told.
struct Told {
  std::mutex mutex;
  std::vector<std::span<const std::byte>> released;
  std::vector<std::thread::id> packers;  // that released it
  std::vector<size_t> shards;            // of what was released
  std::vector<std::thread::id> threads;  // that told what is done
  size_t n_bytes = 0;

  [[nodiscard]] PackListener listener() {
    return {.release =
                [this](size_t i_shard, std::span<const std::byte> rows) {
                  const std::scoped_lock lock(mutex);
                  shards.push_back(i_shard);
                  packers.push_back(std::this_thread::get_id());
                  released.push_back(rows);
                },
            .done =
                [this](size_t n) {
                  threads.push_back(std::this_thread::get_id());
                  n_bytes += n;
                }};
  }
};

/// Weights of several formats, parts of rows, experts, and one of several parts.
std::vector<Rows> some_weights() {
  std::vector<Rows> weights;
  weights.emplace_back(GGML_TYPE_Q4_1, 64, 37, 1);
  weights.emplace_back(GGML_TYPE_Q6_K, 512, 16, 3);
  weights.emplace_back(GGML_TYPE_F16, 50, 5, 2);
  weights.emplace_back(GGML_TYPE_Q8_0, 2048, 1210, 2);
  return weights;
}

std::vector<PackTask> tasks_of(std::vector<Rows> &weights) {
  std::vector<PackTask> tasks;
  for (auto &weight : weights) tasks.push_back(weight.task());
  return tasks;
}

TEST(PackWeights, GivesTheTilesOfOneWeightAndExpertAfterTheOther) {
  auto weights = some_weights();
  Told told;
  pack_weights(tasks_of(weights), told.listener());
  for (const auto &weight : weights)
    EXPECT_TRUE(weight.tiles == weight.packed_one_after_the_other()) << ggml_type_name(weight.type);
}

TEST(PackWeights, ReleasesEveryByteOfEveryWeightOnce) {
  auto weights = some_weights();
  Told told;
  pack_weights(tasks_of(weights), told.listener());
  std::ranges::sort(told.released, {}, [](const auto &rows) { return rows.data(); });
  EXPECT_GT(told.released.size(), 1U + 3 + 2 + 2);  // several parts of the large one
  size_t n_bytes = 0;
  for (const auto &weight : weights) {
    n_bytes += weight.rows.size();
    const std::byte *end = weight.rows.data() + weight.rows.size();
    const std::byte *next = weight.rows.data();
    for (const auto &rows : told.released) {
      if (rows.data() < weight.rows.data() || rows.data() >= end) continue;
      EXPECT_EQ(rows.data(), next) << ggml_type_name(weight.type);
      next = rows.data() + rows.size();
    }
    EXPECT_EQ(next, end) << ggml_type_name(weight.type);
  }
  size_t n_released = 0;
  for (const auto &rows : told.released) n_released += rows.size();
  EXPECT_EQ(n_released, n_bytes);
}

TEST(PackWeights, ReleasesRowsInTheShardOfTheirWeight) {
  auto weights = some_weights();
  for (size_t i = 0; i < weights.size(); ++i) weights[i].i_shard = 10 + i;
  Told told;
  pack_weights(tasks_of(weights), told.listener());
  for (size_t i = 0; i < told.released.size(); ++i) {
    const auto &rows = weights.at(told.shards[i] - 10).rows;
    EXPECT_GE(told.released[i].data(), rows.data());
    EXPECT_LT(told.released[i].data(), rows.data() + rows.size());
  }
}

TEST(PackWeights, TellsTheCallingThreadOfAllBytes) {
  auto weights = some_weights();
  size_t n_bytes = 0;
  for (const auto &weight : weights) n_bytes += weight.rows.size();
  Told told;
  pack_weights(tasks_of(weights), told.listener());
  EXPECT_EQ(told.n_bytes, n_bytes);
  EXPECT_EQ(std::ranges::count(told.threads, std::this_thread::get_id()), std::ssize(told.threads));
}

TEST(PackWeights, StaysInTheCallingThreadWhereThatMayUseOneCpu) {
  auto weights = some_weights();
  Told told;
  const AffinityScope scope(std::array{allowed_cpus().front()});
  pack_weights(tasks_of(weights), told.listener());
  EXPECT_EQ(std::ranges::count(told.packers, std::this_thread::get_id()),
            std::ssize(told.released));
}

TEST(PackWeights, OfNoneDoesNothing) {
  Told told;
  pack_weights({}, told.listener());
  EXPECT_TRUE(told.released.empty());
  EXPECT_EQ(told.n_bytes, 0U);
}

}  // namespace
}  // namespace patchbay
