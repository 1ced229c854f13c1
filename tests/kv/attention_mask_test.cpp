#include "kv/attention_mask.h"

#include <gmock/gmock.h>

#include <cmath>

namespace patchbay {
namespace {

/// One letter per cell: '.' visible, '#' hidden; one string per token.
std::vector<std::string> picture(const BlockTables &tables, const std::vector<SeqPos> &tokens,
                                 uint32_t n_swa) {
  const uint32_t n_kv = tables.pool().n_blocks() * tables.block_size();
  std::vector<ggml_fp16_t> mask(n_kv * tokens.size());
  fill_mask(tables, n_kv, tokens, n_swa, mask);
  std::vector<std::string> rows(tokens.size());
  for (size_t i = 0; i < mask.size(); ++i) {
    rows[i / n_kv] += std::isinf(ggml_fp16_to_fp32(mask[i])) ? '#' : '.';
  }
  return rows;
}

/// Sequence 0 in blocks 0 and 2, sequence 1 in block 1, two tokens each.
BlockTables interleaved() {
  BlockTables tables(4, 2);
  EXPECT_TRUE(tables.extend(0, 2));
  EXPECT_TRUE(tables.extend(1, 2));
  EXPECT_TRUE(tables.extend(0, 1));
  return tables;
}

TEST(AttentionMask, ATokenSeesItsOwnSequenceUpToItself) {
  EXPECT_THAT(picture(interleaved(), {{0, 1}, {0, 2}, {1, 1}}, 0),
              testing::ElementsAre("..######", "..##.###", "##..####"));
}

TEST(AttentionMask, AWindowCountsTheTokenItself) {
  EXPECT_THAT(picture(interleaved(), {{0, 2}}, 1), testing::ElementsAre("####.###"));
  EXPECT_THAT(picture(interleaved(), {{0, 2}}, 2), testing::ElementsAre("#.##.###"));
  EXPECT_THAT(picture(interleaved(), {{0, 2}}, 4), testing::ElementsAre("..##.###"));
}

TEST(AttentionMask, SequencesThatShareABlockBothSeeIt) {
  BlockTables tables(3, 2);
  EXPECT_TRUE(tables.extend(0, 2));
  tables.fork(0, 1);
  EXPECT_TRUE(tables.extend(0, 1));
  EXPECT_TRUE(tables.extend(1, 1));
  EXPECT_THAT(picture(tables, {{0, 2}, {1, 2}}, 0), testing::ElementsAre("...###", "..##.#"));
}

}  // namespace
}  // namespace patchbay
