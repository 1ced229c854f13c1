#include "model/hf_families.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace patchbay {
namespace {

constexpr std::string_view k_archs[] = {"llama",  "qwen2",   "qwen2moe", "qwen3",   "qwen3moe",
                                        "gemma2", "gemma3",  "phi3",     "granite", "granitemoe",
                                        "olmo2",  "smollm3", "deepseek2"};

TEST(HfFamilies, EveryFamilyNamesTablesNormsAndWeights) {
  for (const auto arch : k_archs) {
    const auto *names = find_hf_names(arch);
    ASSERT_NE(names, nullptr) << arch;
    std::set<std::string_view> targets;
    for (const auto &row : names->rows) targets.insert(row.target);
    for (const auto *target : {"token_embd.weight", "output.weight", "blk.#.attn_output.weight"}) {
      EXPECT_TRUE(targets.contains(target)) << arch << " " << target;
    }
    EXPECT_EQ(names->vectors.front().target, "output_norm.weight") << arch;
  }
  EXPECT_EQ(find_hf_names("unheard_of"), nullptr);
}

TEST(HfFamilies, EveryWeightIsWrittenInFull) {
  for (const auto arch : k_archs) {
    for (const auto &row : find_hf_names(arch)->rows) {
      EXPECT_TRUE(row.target.ends_with(".weight")) << row.target;
      EXPECT_EQ(row.hf_path.starts_with("layers.#."), row.target.starts_with("blk.#."))
          << row.hf_path;
    }
  }
}

TEST(HfFamilies, QueriesAndKeysAreReorderedInTheFamiliesOfInterleavedRotation) {
  const std::set<std::string_view> reordered{"llama", "granite", "granitemoe", "smollm3"};
  for (const auto arch : k_archs) {
    for (const auto &row : find_hf_names(arch)->rows) {
      const bool is_q = row.target == "blk.#.attn_q.weight";
      const bool is_k = row.target == "blk.#.attn_k.weight";
      const auto wanted = !reordered.contains(arch) ? RowPlan::as_is
                          : is_q                    ? RowPlan::rotary_q
                          : is_k                    ? RowPlan::rotary_kv
                                                    : RowPlan::as_is;
      EXPECT_EQ(row.plan, wanted) << arch << " " << row.target;
    }
  }
}

TEST(HfFamilies, OnlyGemmasNormsAreStoredPlusOne) {
  for (const auto arch : k_archs) {
    for (const auto &row : find_hf_names(arch)->vectors) {
      EXPECT_EQ(row.plus_one, arch.starts_with("gemma")) << arch << " " << row.target;
    }
  }
}

TEST(HfFamilies, ModelTypesOfOneArchitectureShareItsTable) {
  for (const auto *type : {"llama", "mistral", "mixtral"}) {
    EXPECT_EQ(arch_of_model_type(type), "llama");
  }
  EXPECT_EQ(arch_of_model_type("gemma3_text"), "gemma3");
  EXPECT_EQ(arch_of_model_type("granitemoeshared"), "granitemoe");
  EXPECT_EQ(arch_of_model_type("deepseek_v3"), "deepseek2");
  EXPECT_EQ(arch_of_model_type("unheard_of"), "");
}

}  // namespace
}  // namespace patchbay
