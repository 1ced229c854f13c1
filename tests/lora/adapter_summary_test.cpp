#include "lora/adapter_summary.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace patchbay
