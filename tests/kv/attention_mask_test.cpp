#include "kv/attention_mask.h"

#include <gmock/gmock.h>

#include <cmath>

namespace patchbay {
namespace {

/// One letter per cell: '.' visible, '#' hidden; one string per token.
std::vector<std::string> picture(const std::vector<SeqPos> &cells,
                                 const std::vector<SeqPos> &tokens, uint32_t n_swa) {
  std::vector<ggml_fp16_t> mask(cells.size() * tokens.size());
  fill_mask(cells, static_cast<uint32_t>(cells.size()), tokens, n_swa, mask);
  std::vector<std::string> rows(tokens.size());
  for (size_t i = 0; i < mask.size(); ++i) {
    rows[i / cells.size()] += std::isinf(ggml_fp16_to_fp32(mask[i])) ? '#' : '.';
  }
  return rows;
}

const std::vector<SeqPos> k_cells{{0, 0}, {1, 0}, {0, 1}, {CellTable::k_free, 0}, {0, 2}, {1, 1}};

TEST(AttentionMask, ATokenSeesItsOwnSequenceUpToItself) {
  EXPECT_THAT(picture(k_cells, {{0, 1}, {0, 2}, {1, 1}}, 0),
              testing::ElementsAre(".#.###", ".#.#.#", "#.###."));
}

TEST(AttentionMask, AWindowCountsTheTokenItself) {
  EXPECT_THAT(picture(k_cells, {{0, 2}}, 1), testing::ElementsAre("####.#"));
  EXPECT_THAT(picture(k_cells, {{0, 2}}, 2), testing::ElementsAre("##.#.#"));
  EXPECT_THAT(picture(k_cells, {{0, 2}}, 3), testing::ElementsAre(".#.#.#"));
}

}  // namespace
}  // namespace patchbay
