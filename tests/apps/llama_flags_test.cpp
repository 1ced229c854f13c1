#include "apps/llama_flags.h"

#include <gmock/gmock.h>

#include <set>

namespace patchbay {
namespace {

using testing::ElementsAre;

TEST(ShortFlags, OfSeveralLettersBecomeLong) {
  EXPECT_THAT(spell_out_short_flags({"serve", "-np", "4", "-ub", "64", "-ngl", "99", "-c", "8"}),
              ElementsAre("serve", "--parallel", "4", "--ubatch-size", "64", "--n-gpu-layers", "99",
                          "-c", "8"));
}

TEST(ShortFlags, OthersAndWhatFollowsTwoDashesStay) {
  EXPECT_THAT(spell_out_short_flags({"-n", "-npx", "np", "--np", "--", "-np"}),
              ElementsAre("-n", "-npx", "np", "--np", "--", "-np"));
}

TEST(LlamaVariables, AreNamedAsLlamaServerNamesThem) {
  EXPECT_EQ(llama_variable_of("ctx-size"), "LLAMA_ARG_CTX_SIZE");
  EXPECT_EQ(llama_variable_of("parallel"), "LLAMA_ARG_N_PARALLEL");
  EXPECT_EQ(llama_variable_of("api-key"), "LLAMA_API_KEY");
  EXPECT_EQ(llama_variable_of("metrics"), "LLAMA_ARG_ENDPOINT_METRICS");
}

TEST(IgnoredFlags, AreThereOnceEach) {
  std::set<std::string_view> names;
  for (const auto &flag : ignored_llama_flags())
    EXPECT_TRUE(names.insert(flag.names).second) << flag.names;
}

}  // namespace
}  // namespace patchbay
