#include "kernels/isa.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

TEST(IsaTest, PlainIsAlwaysThereAndTheBestIsTheLastOne) {
  const auto isas = available_isas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::plain);
  EXPECT_EQ(isas.back(), best_isa());
}

}  // namespace
}  // namespace patchbay
