#include "lora/peft_replacements.h"

#include <gmock/gmock.h>

#include "gguf/load_failure.h"
#include "lora/numbered_base.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::SizeIs;

const std::string k_model = "base_model.model.model.";
const std::string k_q0 = k_model + "layers.0.self_attn.q_proj";

/// Two heads of four rows: halves become neighbours.
const std::vector<size_t> k_rotated{0, 2, 1, 3, 4, 6, 5, 7};

void set_vector(PeftBuilder &builder, const std::string &name, const std::vector<float> &values) {
  std::string bytes;
  for (const float value : values) bytes += raw_bytes(value);
  builder.tensors.set(name, "F32", {static_cast<int64_t>(values.size())}, bytes);
}

std::shared_ptr<const Adapter> load_with(const PeftBuilder &builder, const BaseInfo &base,
                                         const AdapterLoadOptions &options = {}) {
  const TempDir folder;
  builder.save(folder);
  return load_adapter(folder.path() / "adapter", base, {}, options);
}

std::string failure(const PeftBuilder &builder, const BaseInfo &base = numbered_base(dense_base()),
                    const AdapterLoadOptions &options = {}) {
  return load_failure([&] { (void)load_with(builder, base, options); });
}

const Replacement &only(const Adapter &adapter) {
  EXPECT_THAT(adapter.replacements, SizeIs(1));
  return adapter.replacements.front();
}

const std::vector<float> k_eight{1, 2, 3, 4, 5, 6, 7, 8};

std::vector<float> rotated(const std::vector<float> &values) {
  std::vector<float> moved;
  for (const size_t i : k_rotated) moved.push_back(values[i]);
  return moved;
}

TEST(PeftReplacements, BiasesOfQueriesAreReorderedAsTheirRowsAre) {
  for (const auto *leaf : {".base_layer.bias", ".bias"}) {
    auto builder = one_pair();
    if (leaf == std::string(".base_layer.bias"))
      builder.pair("model.layers.0.self_attn.q_proj", 8, 8);
    set_vector(builder, k_q0 + leaf, k_eight);
    const auto adapter = load_with(builder, numbered_base(dense_base()));
    EXPECT_EQ(only(*adapter).tensor, "blk.0.attn_q.bias");
    EXPECT_THAT(numbers(only(*adapter).value), ElementsAreArray(rotated(k_eight)));
  }
}

TEST(PeftReplacements, LengthsAndBiasesOfPairsAreReorderedToo) {
  PeftBuilder builder;
  builder.pair("model.layers.0.self_attn.q_proj", 8, 8);
  builder.config["use_dora"] = true;
  set_vector(builder, k_q0 + ".lora_magnitude_vector", k_eight);
  auto adapter = load_with(builder, numbered_base(dense_base()));
  EXPECT_THAT(numbers(adapter->pairs[0].magnitude), ElementsAreArray(rotated(k_eight)));
  builder.config["use_dora"] = false;
  builder.config["lora_bias"] = true;
  builder.tensors.erase(k_q0 + ".lora_magnitude_vector");
  set_vector(builder, k_q0 + ".lora_B.bias", k_eight);
  adapter = load_with(builder, numbered_base(dense_base()));
  EXPECT_THAT(numbers(adapter->pairs[0].bias), ElementsAreArray(rotated(k_eight)));
}

TEST(PeftReplacements, NormsAreTakenAsTheFamilyStoresThem) {
  auto builder = one_pair();
  set_vector(builder, k_model + "layers.1.input_layernorm.weight", k_eight);
  auto adapter = load_with(builder, numbered_base(dense_base()));
  EXPECT_EQ(only(*adapter).tensor, "blk.1.attn_norm.weight");
  EXPECT_THAT(numbers(only(*adapter).value), ElementsAreArray(k_eight));
  adapter = load_with(builder, numbered_base(dense_base("gemma3")));
  EXPECT_THAT(numbers(only(*adapter).value), ElementsAre(2, 3, 4, 5, 6, 7, 8, 9));
}

TEST(PeftReplacements, RowsOfTokensAreSortedAndChangeBothUsesOfATiedTable) {
  auto builder = one_pair();
  builder.config["trainable_token_indices"] = {7, 2};
  builder.tensors.set(k_model + "embed_tokens.token_adapter.trainable_tokens_delta",
                      numbered(2, 8));
  const auto first = numbered(2, 8).values;
  std::vector<float> sorted(first.begin() + 8, first.end());
  sorted.insert(sorted.end(), first.begin(), first.begin() + 8);
  const auto untied = load_with(builder, numbered_base(dense_base()));
  EXPECT_EQ(only(*untied).tensor, "token_embd.weight");
  const auto tied = load_with(builder, numbered_base(dense_base("llama", true)));
  ASSERT_THAT(tied->replacements, SizeIs(2));
  for (const auto &replacement : tied->replacements) {
    EXPECT_THAT(replacement.rows, ElementsAre(2, 7)) << replacement.tensor;
    EXPECT_THAT(numbers(replacement.value), ElementsAreArray(sorted));
  }
}

TEST(PeftReplacements, RowsWithoutTheirTokensAreRefused) {
  auto builder = one_pair();
  builder.tensors.set(k_model + "embed_tokens.token_adapter.trainable_tokens_delta",
                      numbered(2, 8));
  EXPECT_THAT(failure(builder), HasSubstr("does not say for which tokens"));
  builder.config["trainable_token_indices"] = {1, 2, 3};
  EXPECT_THAT(failure(builder), HasSubstr("has incorrect shape: want [3, 8]"));
  builder.config["trainable_token_indices"] = {4, 4};
  EXPECT_THAT(failure(builder), HasSubstr("twice"));
  builder.config["trainable_token_indices"] = {4, 10};
  EXPECT_THAT(failure(builder), HasSubstr("names token 10"));
  builder.config["trainable_token_indices"] = {{"lm_head", {1, 2}}};
  EXPECT_THAT(failure(builder), HasSubstr("does not say for which tokens"));
}

TEST(PeftReplacements, WhatEqualsTheBaseIsLeftOutWithANote) {
  auto builder = one_pair();
  builder.tensors.set("base_model.model.lm_head.weight",
                      {10, 8, base_numbers("output.weight", 80)});
  set_vector(builder, k_model + "norm.weight", base_numbers("output_norm.weight", 8));
  for (const ggml_type type : {GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16}) {
    const auto adapter = load_with(builder, numbered_base(dense_base(), type));
    EXPECT_THAT(adapter->replacements, SizeIs(0));
    EXPECT_THAT(adapter->notes, Contains(AllOf(HasSubstr("left out: 2"), HasSubstr("output.weight"),
                                               HasSubstr("output_norm.weight"))));
  }
}

TEST(PeftReplacements, WholeMatricesThatDifferNeedAllowanceAndTheirSizeIsNamed) {
  auto builder = one_pair();
  auto head = base_numbers("output.weight", 80);
  head[17] += 0.125F;
  builder.tensors.set("base_model.model.lm_head.weight", {10, 8, head});
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("output.weight"), HasSubstr("MiB"),
                                      HasSubstr("--allow-full-modules")));
  const auto adapter =
      load_with(builder, numbered_base(dense_base()), {.allow_full_modules = true});
  EXPECT_EQ(only(*adapter).tensor, "output.weight");
  EXPECT_THAT(numbers(only(*adapter).value), ElementsAreArray(head));
}

TEST(PeftReplacements, QuantisedBasesAreComparedWithWhatQuantisingGives) {
  BaseInfo base = dense_base();
  base.uses = {{.name = "blk.0.attn_v.weight", .kind = UseKind::linear, .ne = {32, 4, 1}},
               {.name = "output.weight", .kind = UseKind::linear, .ne = {32, 10, 1}}};
  base = numbered_base(base, GGML_TYPE_Q8_0);
  PeftBuilder builder;
  builder.pair("model.layers.0.self_attn.v_proj", 32, 4);
  auto head = base_numbers("output.weight", 320);
  builder.tensors.set("base_model.model.lm_head.weight", {10, 32, head});
  EXPECT_THAT(load_with(builder, base)->replacements, SizeIs(0));
  head[5] += 1;
  builder.tensors.set("base_model.model.lm_head.weight", {10, 32, head});
  EXPECT_THAT(failure(builder, base), HasSubstr("--allow-full-modules"));
}

TEST(PeftReplacements, APairOnAReplacedMatrixAndReplacementsOfAnAloraAreRefused) {
  auto builder = one_pair();
  builder.tensors.set("base_model.model.model.layers.0.self_attn.v_proj.weight", numbered(4, 8));
  EXPECT_THAT(failure(builder, numbered_base(dense_base()), {.allow_full_modules = true}),
              HasSubstr("adapted by a pair at once"));
  auto alora = one_pair();
  alora.config["alora_invocation_tokens"] = {5};
  set_vector(alora, k_model + "norm.weight", k_eight);
  EXPECT_THAT(failure(alora), HasSubstr("aLoRA"));
}

TEST(PeftReplacements, ShapesAndNumbersAreChecked) {
  auto builder = one_pair();
  set_vector(builder, k_model + "norm.weight", {1, 2, 3});
  EXPECT_THAT(failure(builder), HasSubstr("want [8] in torch order, found [3]"));
  set_vector(builder, k_model + "norm.weight", {1, 2, 3, 4, 5, 6, 7, INFINITY});
  EXPECT_THAT(failure(builder), HasSubstr("NaN or infinity"));
  builder.tensors.set(k_model + "norm.weight", "I32", {8}, std::string(32, '\0'));
  EXPECT_THAT(failure(builder), HasSubstr("dtype"));
}

TEST(PeftReplacements, TheOnlyThingThatDiffersMayBeOne) {
  PeftBuilder builder;
  set_vector(builder, k_model + "norm.weight", k_eight);
  const auto adapter = load_with(builder, numbered_base(dense_base()));
  EXPECT_THAT(adapter->pairs, SizeIs(0));
  EXPECT_FALSE(adapter->cannot_change_output);
  set_vector(builder, k_model + "norm.weight", base_numbers("output_norm.weight", 8));
  EXPECT_THAT(failure(builder), HasSubstr("differs from the base"));
}

TEST(PeftReplacements, LengthsOfSingleExpertsAreStackedAndThoseOfMissingOnesAreZero) {
  PeftBuilder builder;
  builder.config["use_dora"] = true;
  for (const int e : {0, 2}) {
    const auto module = "model.layers.0.block_sparse_moe.experts." + std::to_string(e) + ".w2";
    builder.pair(module, 12, 8, 2, e);
    auto lengths = k_eight;
    lengths[0] = static_cast<float>(10 + e);
    set_vector(builder, "base_model.model." + module + ".lora_magnitude_vector", lengths);
  }
  const auto adapter = load_with(builder, numbered_base(expert_base()));
  const Factor &magnitude = adapter->find("blk.0.ffn_down_exps.weight")->magnitude;
  EXPECT_THAT(magnitude.ne, ElementsAre(8, 3, 1));
  const auto values = numbers(magnitude);
  EXPECT_EQ(values[0], 10);
  EXPECT_THAT(std::vector(values.begin() + 8, values.begin() + 16),
              testing::Each(testing::Eq(0.0F)));
  EXPECT_EQ(values[16], 12);
}

TEST(PeftReplacements, GroupsOfQaloraAndBlocksOfBdloraAreWrittenOut) {
  PeftBuilder grouped;
  grouped.config["use_qalora"] = true;
  grouped.config["qalora_group_size"] = 4;
  grouped.config["r"] = 1;
  grouped.pair("model.layers.0.self_attn.v_proj", {1, 2, {3, 5}}, numbered(4, 1));
  auto adapter = grouped.load(dense_base());
  // Times groups over the size of one: 2 / 4.
  EXPECT_THAT(numbers(adapter->pairs[0].a), ElementsAre(1.5, 1.5, 1.5, 1.5, 2.5, 2.5, 2.5, 2.5));
  PeftBuilder blocks;
  blocks.config["use_bdlora"] = {
      {"nblocks", 2}, {"target_modules_bd_a", {"o_proj"}}, {"target_modules_bd_b", {"v_proj"}}};
  blocks.pair("model.layers.0.self_attn.o_proj", {2, 4, {1, 2, 3, 4, 5, 6, 7, 8}}, numbered(8, 2));
  blocks.pair("model.layers.0.self_attn.v_proj", numbered(2, 8), {4, 1, {1, 2, 3, 4}});
  adapter = blocks.load(dense_base());
  EXPECT_THAT(numbers(adapter->find("blk.0.attn_output.weight")->a),
              ElementsAre(1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8));
  EXPECT_THAT(numbers(adapter->find("blk.0.attn_v.weight")->b),
              ElementsAre(1, 0, 2, 0, 0, 3, 0, 4));
}

}  // namespace
}  // namespace patchbay
