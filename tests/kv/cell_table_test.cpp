#include "kv/cell_table.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

TEST(CellTable, ClaimsTheLowestFreeCells) {
  CellTable cells(6);
  EXPECT_THAT(cells.claim(std::vector<SeqPos>{{0, 0}, {1, 0}, {0, 1}}).value(),
              ElementsAre(0, 1, 2));
  cells.release(1);
  EXPECT_THAT(cells.claim(std::vector<SeqPos>{{2, 0}, {2, 1}}).value(), ElementsAre(1, 3));
  EXPECT_EQ(cells.end(), 4U);
  EXPECT_EQ(cells.n_free(), 2U);
}

TEST(CellTable, OneOverCapacityFailsWithoutPartialClaim) {
  CellTable cells(3);
  ASSERT_TRUE(cells.claim(std::vector<SeqPos>{{0, 0}}));
  EXPECT_FALSE(cells.claim(std::vector<SeqPos>{{1, 0}, {1, 1}, {1, 2}}));
  EXPECT_EQ(cells.n_free(), 2U);
  EXPECT_EQ(cells.end(), 1U);
}

TEST(CellTable, ReleasesASequenceFromAPositionOn) {
  CellTable cells(5);
  ASSERT_TRUE(cells.claim(std::vector<SeqPos>{{0, 0}, {1, 0}, {0, 1}, {0, 2}}));
  EXPECT_THAT(cells.release(0, 1), ElementsAre(2, 3));
  EXPECT_EQ(cells.n_free(), 3U);
  EXPECT_EQ(cells.end(), 2U);
  EXPECT_EQ(cells.cells()[0].seq_id, 0);
  cells.release(7);
  EXPECT_EQ(cells.n_free(), 3U);
}

TEST(CellTable, AClaimTakenBackFreesItsCellsAndNoOthers) {
  CellTable cells(5);
  ASSERT_TRUE(cells.claim(std::vector<SeqPos>{{0, 5}}));
  const auto claimed = cells.claim(std::vector<SeqPos>{{0, 3}, {0, 4}}).value();
  cells.release(claimed);
  EXPECT_EQ(cells.n_free(), 4U);
  EXPECT_EQ(cells.cells()[0].pos, 5);
}

}  // namespace
}  // namespace patchbay
