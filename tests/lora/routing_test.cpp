#include "lora/routing.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

TEST(Routing, HasAsManyLanesAsTheLargestSet) {
  const AdapterSet none;
  const AdapterSet one{{3, 1}};
  const AdapterSet two{{0, 2}, {4, -1}};
  const auto routing = Routing::of(std::vector<const AdapterSet *>{&none, &two, &one});
  EXPECT_EQ(routing.n_rows(), 3U);
  EXPECT_EQ(routing.n_lanes(), 2U);
  EXPECT_EQ(routing.at(0, 0).i_adapter, Routing::k_none);
  EXPECT_EQ(routing.at(1, 1), (Worn{4, -1}));
  EXPECT_EQ(routing.at(2, 0), (Worn{3, 1}));
  EXPECT_EQ(routing.at(2, 1).i_adapter, Routing::k_none);
  EXPECT_EQ(routing.at(2, 1).strength, 0);
}

TEST(Routing, OfBaseRowsAloneIsEmpty) {
  const AdapterSet none;
  EXPECT_TRUE(Routing::of(std::vector<const AdapterSet *>{&none, &none}).empty());
}

TEST(Routing, NeighboursThatWearTheSameAreOneSegment) {
  const AdapterSet none;
  const AdapterSet one{{3, 1}};
  const AdapterSet weaker{{3, 0.5F}};
  const AdapterSet two{{3, 1}, {4, -1}};
  const auto segments =
      Routing::of(std::vector<const AdapterSet *>{&none, &one, &one, &weaker, &none, &two, &two})
          .segments();
  ASSERT_EQ(segments.size(), 3U);
  EXPECT_EQ(segments[0].first_row, 1);
  EXPECT_EQ(segments[0].n_rows, 2);
  EXPECT_EQ(segments[0].set, one);
  EXPECT_EQ(segments[1].first_row, 3);
  EXPECT_EQ(segments[1].n_rows, 1);
  EXPECT_EQ(segments[1].set, weaker);
  EXPECT_EQ(segments[2].first_row, 5);
  EXPECT_EQ(segments[2].n_rows, 2);
  EXPECT_EQ(segments[2].set, two);
  EXPECT_TRUE(Routing::of(std::vector<const AdapterSet *>{&none}).segments().empty());
}

TEST(Routing, RowsOfOneSetWithOthersBetweenThemAreSegmentsOfTheirOwn) {
  const AdapterSet none;
  const AdapterSet one{{3, 1}};
  const auto segments = Routing::of(std::vector<const AdapterSet *>{&one, &none, &one}).segments();
  ASSERT_EQ(segments.size(), 2U);
  EXPECT_EQ(segments[1].first_row, 2);
}

TEST(Routing, SelectsRows) {
  const AdapterSet none;
  const AdapterSet one{{3, 1}};
  const auto selected =
      Routing::of(std::vector<const AdapterSet *>{&none, &one, &none}).select(std::vector{1, 0});
  EXPECT_EQ(selected.n_rows(), 2U);
  EXPECT_EQ(selected.at(0, 0), (Worn{3, 1}));
  EXPECT_EQ(selected.at(1, 0).i_adapter, Routing::k_none);
}

}  // namespace
}  // namespace patchbay
