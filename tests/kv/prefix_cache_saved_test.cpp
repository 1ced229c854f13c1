// Blocks that leave a prefix cache and come into another.

#include <gmock/gmock.h>

#include "kv/filled_cache.h"

namespace patchbay {
namespace {

constexpr uint32_t k_block_size = 4;
constexpr uint32_t k_swa = 6;

std::vector<int32_t> counted(int32_t first, int32_t n) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back(first + i);
  return tokens;
}

FilledCache::Options shape(uint32_t n_blocks, uint32_t n_blocks_swa, size_t host_bytes = 0) {
  return {.sizes = {.block_size = k_block_size, .n_blocks = n_blocks, .n_blocks_swa = n_blocks_swa},
          .n_swa = n_blocks_swa > 0 ? k_swa : 0,
          .host_bytes = host_bytes};
}

void serve(FilledCache &kv, const std::vector<int32_t> &tokens) {
  constexpr int32_t k_seq = 50;
  const uint32_t n_there = kv.begin(k_seq, "", tokens);
  EXPECT_TRUE(kv.compute(k_seq, {tokens.begin() + n_there, tokens.end()}));
  kv.release(k_seq);
}

SavedPrefix save(FilledCache &kv, const std::vector<int32_t> &tokens) {
  return kv.tables().prefixes().save("", FilledCache::content_of(tokens));
}

uint32_t load(FilledCache &kv, const std::vector<int32_t> &tokens, const SavedPrefix &saved) {
  const uint32_t n_tokens =
      kv.tables().prefixes().load("", FilledCache::content_of(tokens), saved.blocks());
  kv.check();
  return n_tokens;
}

/// With and without windows.
class SavedPrefixOf : public testing::TestWithParam<uint32_t> {};

TEST_P(SavedPrefixOf, EveryTokenIsWhatItWas) {
  const uint32_t n_swa_blocks = GetParam();
  for (const int32_t n : {1, 3, 4, 5, 11, 12, 13}) {
    FilledCache from(shape(8, n_swa_blocks));
    FilledCache to(shape(8, n_swa_blocks));
    serve(from, counted(0, n));
    const SavedPrefix saved = save(from, counted(0, n));
    ASSERT_EQ(saved.n_tokens, n);
    EXPECT_EQ(load(to, counted(0, n), saved), n);
    EXPECT_EQ(to.begin(1, "", counted(0, 20)), n);  // looks at every row
    EXPECT_TRUE(to.compute(1, counted(70, 3)));
    EXPECT_EQ(to.begin(2, "other", counted(0, 20)), 0U);
  }
}

TEST_P(SavedPrefixOf, APartOfALongerBlockIsEnough) {
  FilledCache from(shape(8, GetParam()));
  serve(from, counted(0, 12));
  const SavedPrefix saved = save(from, counted(0, 10));
  ASSERT_EQ(saved.n_tokens, 10U);
  FilledCache to(shape(8, GetParam()));
  EXPECT_EQ(load(to, counted(0, 10), saved), 10U);
  EXPECT_EQ(to.begin(1, "", counted(0, 12)), 10U) << "the other two are not told of";
  // Into the longer one it adds nothing.
  const size_t n_nodes = from.tables().prefixes().n_nodes();
  EXPECT_EQ(load(from, counted(0, 10), saved), 10U);
  EXPECT_EQ(from.tables().prefixes().n_nodes(), n_nodes);
  EXPECT_EQ(from.begin(1, "", counted(0, 12)), 12U);
}

TEST_P(SavedPrefixOf, NothingOfOtherTokensOrOldMemoryIsInTheBytes) {
  const auto saved_of = [](KvLayout layout, const std::vector<int32_t> &rest) {
    auto options = shape(8, GetParam());
    options.layout = layout;
    FilledCache kv(options);
    serve(kv, counted(500, 24));  // somebody else was there before
    serve(kv, counted(0, 9));
    std::vector<int32_t> longer = counted(0, 9);
    longer.insert(longer.end(), rest.begin(), rest.end());
    serve(kv, longer);
    std::vector<std::byte> all;
    const SavedPrefix saved = save(kv, counted(0, 9));
    for (const auto *copies : {&saved.full, &saved.window}) {
      for (const auto &copy : *copies)
        all.insert(all.end(), copy.bytes().begin(), copy.bytes().end());
    }
    return all;
  };
  for (const auto layout : {KvLayout::by_token, KvLayout::by_head})
    EXPECT_EQ(saved_of(layout, {1, 2}), saved_of(layout, {3}));
}

TEST_P(SavedPrefixOf, TakesWhatIsIdleAndNothingThatIsInUse) {
  FilledCache from(shape(8, GetParam()));
  serve(from, counted(0, 20));
  const SavedPrefix saved = save(from, counted(0, 20));
  FilledCache to(shape(6, GetParam() > 0 ? 6 : 0));
  serve(to, counted(100, 8));
  ASSERT_EQ(to.begin(1, "", {}), 0U);
  ASSERT_TRUE(to.compute(1, counted(200, 7)));  // runs on, in two of the six blocks
  EXPECT_EQ(load(to, counted(0, 20), saved), 16U);
  EXPECT_EQ(to.begin(2, "", counted(0, 20)), 16U);
  EXPECT_EQ(to.begin(3, "", counted(100, 8)), 0U) << "it was idle";
}

TEST_P(SavedPrefixOf, WhatIsThereAlreadyTakesNoBlock) {
  FilledCache kv(shape(8, GetParam()));
  serve(kv, counted(0, 10));
  const SavedPrefix saved = save(kv, counted(0, 10));
  const uint32_t n_free = kv.tables().full().pool().n_free();
  EXPECT_EQ(load(kv, counted(0, 10), saved), 10U);
  EXPECT_EQ(kv.tables().full().pool().n_free(), n_free);
}

TEST_P(SavedPrefixOf, WhatIsInTheHostTierIsSavedToo) {
  FilledCache kv(shape(4, GetParam() > 0 ? 4 : 0, size_t{1} << 20U));
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));
  const SavedPrefix saved = save(kv, counted(0, 16));
  ASSERT_EQ(saved.n_tokens, 16U);
  FilledCache to(shape(8, GetParam()));
  EXPECT_EQ(load(to, counted(0, 16), saved), 16U);
  EXPECT_EQ(to.begin(1, "", counted(0, 16)), 16U);
  EXPECT_EQ(load(kv, counted(0, 16), saved), 16U) << "from the file, not twice";
  EXPECT_EQ(kv.begin(1, "", counted(0, 16)), 16U);
}

TEST_P(SavedPrefixOf, TheBeginningOfABlockInTheHostTierIsLoadedTwiceIntoOneBlock) {
  FilledCache from(shape(8, GetParam()));
  serve(from, counted(0, 6));
  const SavedPrefix saved = save(from, counted(0, 6));
  FilledCache kv(shape(4, GetParam() > 0 ? 4 : 0, size_t{1} << 20U));
  serve(kv, counted(0, 16));
  serve(kv, counted(100, 16));  // 4..7 is in the host tier now, and 4..5 is loaded beside it
  EXPECT_EQ(load(kv, counted(0, 6), saved), 6U);
  const uint64_t n_evicted = kv.counters().n_blocks_evicted;
  EXPECT_EQ(load(kv, counted(0, 6), saved), 6U);
  EXPECT_EQ(kv.counters().n_blocks_evicted, n_evicted);
  EXPECT_EQ(kv.begin(1, "", counted(0, 16)), 16U);
}

std::string name_of(const testing::TestParamInfo<uint32_t> &info) {
  return info.param == 0 ? "full" : "windows";
}

INSTANTIATE_TEST_SUITE_P(Layers, SavedPrefixOf, testing::Values(0U, 8U), name_of);

}  // namespace
}  // namespace patchbay
