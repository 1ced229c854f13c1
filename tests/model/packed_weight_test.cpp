#include "model/packed_weight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace patchbay {
namespace {

TEST(PackedWeight, EveryFormatOfOurProductsHasATypeOfItsOwn) {
  std::vector<WeightFormat> formats;
  for (int type = 0; type < GGML_TYPE_COUNT; ++type) {
    if (const auto format = weight_format(static_cast<ggml_type>(type))) formats.push_back(*format);
  }
  std::ranges::sort(formats);
  EXPECT_TRUE(std::ranges::equal(formats, k_weight_formats));
  EXPECT_EQ(weight_format(GGML_TYPE_F32), std::nullopt);
}

}  // namespace
}  // namespace patchbay
