#include "lora/adapter_summary.h"

#include <gtest/gtest.h>

#include "lora/factor_ops.h"

namespace patchbay {
namespace {

TEST(AdapterSummary, LooseNamesOfOneModelDoNotDiffer) {
  EXPECT_FALSE(
      names_differ_clearly("HuggingFaceTB/SmolLM2-135M-Instruct", "SmolLM2 135M Instruct"));
  EXPECT_FALSE(names_differ_clearly("unsloth/Llama-3.2-1B-bnb-4bit", "Meta Llama 3.2 1B Instruct"));
  EXPECT_FALSE(names_differ_clearly("/home/me/models/gemma-3-270m-it/", "Gemma 3 270m It"));
  EXPECT_FALSE(names_differ_clearly("TinyLlama", "Tiny_Llama"));
}

TEST(AdapterSummary, AnEmptyNameDiffersFromNothing) {
  EXPECT_FALSE(names_differ_clearly("", "Llama 3"));
  EXPECT_FALSE(names_differ_clearly("llama", ""));
  EXPECT_FALSE(names_differ_clearly("///", "llama"));
}

TEST(AdapterSummary, AnotherSizeOrNoCommonWordDiffers) {
  EXPECT_TRUE(names_differ_clearly("meta-llama/Llama-2-7b", "Llama 2 13b"));
  EXPECT_TRUE(names_differ_clearly("Qwen/Qwen3-Instruct", "Gemma 3 270m It"));
}

TEST(AdapterSummary, SaysWhatAnAdapterHasBesidePlainPairs) {
  Adapter adapter;
  EXPECT_TRUE(describe_extras(adapter).empty());
  const auto vector = make_factor({2, 1, 1}, {1, 2});
  adapter.pairs = {{.target = "a", .magnitude = vector}, {.target = "b", .bias = vector}};
  adapter.replacements = {{.tensor = "blk.0.attn_q.bias", .value = vector},
                          {.tensor = "output_norm.weight", .value = vector},
                          {.tensor = "token_embd.weight", .value = vector, .rows = {3}},
                          {.tensor = "output.weight", .value = make_factor({1, 2, 1}, {1, 2})}};
  const std::vector<std::string> want{"1 pairs have DoRA lengths",
                                      "1 pairs have a bias of their own",
                                      "1 biases are replaced",
                                      "1 norms are replaced",
                                      "1 tables have new rows of tokens",
                                      "1 whole matrices are replaced"};
  EXPECT_EQ(describe_extras(adapter), want);
}

}  // namespace
}  // namespace patchbay
