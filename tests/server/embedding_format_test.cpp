#include "server/embedding_format.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

std::vector<float> normalised(std::vector<float> vector, int p) {
  normalise(vector, p);
  return vector;
}

TEST(Normalise, DividesByTheNormThatIsAskedFor) {
  EXPECT_THAT(normalised({3, -4}, -1), ElementsAre(3, -4));
  EXPECT_THAT(normalised({3, -4}, 0), ElementsAre(FloatEq(24570), FloatEq(-32760)));
  EXPECT_THAT(normalised({3, -4}, 1), ElementsAre(FloatEq(3.0F / 7), FloatEq(-4.0F / 7)));
  EXPECT_THAT(normalised({3, -4}, 2), ElementsAre(FloatEq(0.6F), FloatEq(-0.8F)));
  EXPECT_THAT(normalised({1, 1}, 3), ElementsAre(FloatEq(0.7937005F), FloatEq(0.7937005F)));
  EXPECT_THAT(normalised({0, 0}, 2), ElementsAre(0, 0));
  EXPECT_THAT(normalised({3e30F, -4e30F}, 2), ElementsAre(FloatEq(0.6F), FloatEq(-0.8F)));
}

TEST(NumberArray, WritesFloatsShort) {
  const std::vector<float> vector{0.1F, -2, 1e-20F};
  EXPECT_EQ(to_text(number_array(vector)), "[0.1,-2.0,1e-20]");
}

TEST(Base64, IsOfLittleEndianFloats) {
  EXPECT_EQ(base64_of(std::vector<float>{}), "");
  EXPECT_EQ(base64_of(std::vector<float>{1}), "AACAPw==");
  EXPECT_EQ(base64_of(std::vector<float>{1, -2}), "AACAPwAAAMA=");
  EXPECT_EQ(base64_of(std::vector<float>{1, -2, 0}), "AACAPwAAAMAAAAAA");
}

}  // namespace
}  // namespace patchbay
