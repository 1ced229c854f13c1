#include "lora/dotted_path.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

TEST(DottedPath, SuffixesBeginAtComponents) {
  EXPECT_THAT(dotted_suffixes("a.bc.d"), ElementsAre("a.bc.d", "bc.d", "d"));
  EXPECT_THAT(dotted_suffixes("a"), ElementsAre("a"));
  EXPECT_THAT(dotted_suffixes(".a."), ElementsAre(".a.", "a.", ""));
}

TEST(DottedPath, EndsWithWholeComponentsOnly) {
  EXPECT_TRUE(ends_with_components("a.bc.d", "bc.d"));
  EXPECT_TRUE(ends_with_components("a.bc.d", "a.bc.d"));
  EXPECT_FALSE(ends_with_components("a.bc.d", "c.d"));
  EXPECT_FALSE(ends_with_components("d", "bc.d"));
}

}  // namespace
}  // namespace patchbay
