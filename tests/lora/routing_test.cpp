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
