#include "kv/kv_sizes.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "kv/kv_cache.h"
#include "kv/kv_tables.h"

namespace patchbay {
namespace {

HParams hparams_with(uint32_t n_swa) {
  HParams hp;
  hp.n_layer = 3;
  hp.n_head_kv = 3;
  hp.n_embd_head = 32;
  hp.n_swa = n_swa;
  if (n_swa > 0) hp.swa = {true, false, true};
  return hp;
}

TEST(KvSizes, TheContextIsRoundedUpToWholeBlocks) {
  EXPECT_EQ(kv_sizes(hparams_with(0), {.n_ctx = 65, .block_size = 32}),
            (KvSizes{.block_size = 32, .n_blocks = 3, .n_blocks_swa = 0}));
}

TEST(KvSizes, WindowsTakeNoMoreThanTheirSequencesCanHold) {
  const KvDemand demand{.n_ctx = 4096, .n_seqs_max = 2, .n_ubatch = 64, .block_size = 32};
  EXPECT_EQ(kv_sizes(hparams_with(70), demand).n_blocks_swa, 2U * (3 + 2) + 2);
  const KvDemand small{.n_ctx = 64, .n_seqs_max = 2, .n_ubatch = 64, .block_size = 32};
  EXPECT_EQ(kv_sizes(hparams_with(70), small).n_blocks_swa, 2U);
}

TEST(KvSizes, WindowBlocksNeverRunOutBeforeTheOthers) {
  std::mt19937 random(1);
  const auto draw = [&](uint32_t low, uint32_t high) {
    return std::uniform_int_distribution<uint32_t>(low, high)(random);
  };
  for (int round = 0; round < 200; ++round) {
    const KvDemand demand{.n_ctx = draw(1, 400),
                          .n_seqs_max = draw(1, 6),
                          .n_ubatch = draw(1, 40),
                          .block_size = draw(1, 8)};
    const HParams hp = hparams_with(draw(1, 30));
    KvTables tables(kv_sizes(hp, demand), hp.n_swa);
    KvTables without({.block_size = demand.block_size, .n_blocks = kv_sizes(hp, demand).n_blocks},
                     0);
    for (int step = 0; step < 40; ++step) {
      std::vector<SeqExtent> extents;
      uint32_t n_left = demand.n_ubatch;
      for (uint32_t seq = 0; seq < demand.n_seqs_max && n_left > 0; ++seq) {
        const uint32_t n = draw(0, std::min(n_left, 6U));
        if (n > 0) extents.push_back({static_cast<int32_t>(seq), n});
        n_left -= n;
      }
      auto reserved = tables.reserve(extents);
      auto wanted = without.reserve(extents);
      ASSERT_EQ(reserved.has_value(), wanted.has_value());
      if (reserved) reserved->commit();
      if (wanted) wanted->commit();
      const auto [from, to] = std::pair{draw(0, demand.n_seqs_max - 1), draw(0, 40)};
      if (to >= demand.n_seqs_max) continue;
      for (KvTables *each : {&tables, &without})
        each->fork(static_cast<int32_t>(from), static_cast<int32_t>(to));
    }
  }
}

TEST(KvBytes, AreWhatTheCacheTakes) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_F32, GGML_TYPE_Q8_0}) {
    for (const uint32_t n_swa : {0U, 5U}) {
      for (const uint32_t block_size : {3U, 32U}) {
        const HParams hp = hparams_with(n_swa);
        const KvDemand demand{.n_ctx = 500, .n_seqs_max = 1, .block_size = block_size};
        const KvSizes sizes = kv_sizes(hp, demand);
        EXPECT_EQ(KvCache(hp, sizes, type).size_bytes(), kv_bytes(hp, sizes, type));
      }
    }
  }
}

TEST(KvBytes, ABudgetIsUsedUpAndNeverExceeded) {
  for (const uint32_t n_swa : {0U, 40U}) {
    const HParams hp = hparams_with(n_swa);
    const auto bytes_of = [&](uint32_t n_ctx) {
      return kv_bytes(hp, kv_sizes(hp, {.n_ctx = n_ctx}), GGML_TYPE_F16);
    };
    for (const size_t budget :
         {bytes_of(32), bytes_of(32) + 1, size_t{1} << 20U, bytes_of(3200) - 1}) {
      const uint32_t n_ctx = kv_tokens_within(budget, hp, {}, GGML_TYPE_F16);
      EXPECT_LE(bytes_of(n_ctx), budget);
      EXPECT_GT(bytes_of(n_ctx + 32), budget);
    }
    EXPECT_THROW((void)kv_tokens_within(bytes_of(32) - 1, hp, {}, GGML_TYPE_F16), LoadError);
  }
}

TEST(KvCache, AQuantisedTypeNeedsHeadsThatDivide) {
  HParams hp = hparams_with(0);
  hp.n_embd_head = 80;
  EXPECT_THROW(KvCache(hp, {.n_blocks = 1}, GGML_TYPE_Q8_0), LoadError);
  EXPECT_NO_THROW(KvCache(hp, {.n_blocks = 1}, GGML_TYPE_F16));
}

TEST(KvCache, CopiesWholeBlocksOfTheLayersThatAreMeant) {
  const HParams hp = hparams_with(5);
  KvCache cache(hp, {.block_size = 2, .n_blocks = 3, .n_blocks_swa = 3}, GGML_TYPE_F32);
  const auto values = [](ggml_tensor *tensor) {
    const auto *data = static_cast<const float *>(tensor->data);
    return std::vector<float>(data, data + ggml_nelements(tensor));
  };
  for (uint32_t il = 0; il < hp.n_layer; ++il) {
    for (ggml_tensor *tensor : {cache.k(il), cache.v(il)}) {
      auto *data = static_cast<float *>(tensor->data);
      for (int64_t i = 0; i < ggml_nelements(tensor); ++i) data[i] = static_cast<float>(i);
    }
  }
  cache.copy(std::vector<BlockCopy>{{.from = 0, .to = 2}}, {});
  const auto block = static_cast<ptrdiff_t>(2 * hp.n_embd_kv());
  for (ggml_tensor *tensor : {cache.k(1), cache.v(1)}) {
    const auto all = values(tensor);
    EXPECT_TRUE(std::equal(all.begin(), all.begin() + block, all.begin() + 2 * block));
    EXPECT_EQ(all[static_cast<size_t>(block)], static_cast<float>(block));
  }
  EXPECT_EQ(values(cache.k(0))[static_cast<size_t>(2 * block)], static_cast<float>(2 * block));
}

}  // namespace
}  // namespace patchbay
