#include "lora/gguf_extras.h"

#include <gmock/gmock.h>

#include "gguf/load_failure.h"
#include "lora/numbered_base.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

GgufBuilder plain() {
  GgufBuilder builder;
  builder.set("general.type", "adapter")
      .set("general.architecture", "llama")
      .set("adapter.type", "lora")
      .set("adapter.lora.alpha", 4.0F);
  builder.add_f32("blk.0.attn_v.weight.lora_a", {8, 2}, std::vector<float>(16, 1));
  builder.add_f32("blk.0.attn_v.weight.lora_b", {2, 4}, std::vector<float>(8, 1));
  return builder;
}

std::shared_ptr<const Adapter> load(const GgufBuilder &builder,
                                    const AdapterLoadOptions &options = {}) {
  const TempDir folder;
  return load_adapter(folder.write("adapter.gguf", builder.bytes()), numbered_base(dense_base()),
                      {}, options);
}

std::string failure(const GgufBuilder &builder) {
  return load_failure([&] { (void)load(builder); });
}

const std::vector<float> k_eight{1, 2, 3, 4, 5, 6, 7, 8};

std::string ids(const std::vector<int32_t> &tokens) {
  std::string bytes;
  for (const int32_t token : tokens) bytes += raw_bytes(token);
  return bytes;
}

TEST(GgufExtras, EveryRoleIsRead) {
  auto builder = plain();
  builder.add_f32("blk.0.attn_v.weight.patchbay_dora_m", {4}, {1, 2, 3, 4})
      .add_f32("blk.0.attn_q.weight.patchbay_bias", {8}, k_eight)
      .add_f32("blk.1.attn_norm.weight.patchbay_norm", {8}, k_eight)
      .add_f32("output_norm.weight", {8}, k_eight)
      .add_f32("token_embd.weight.patchbay_rows", {8, 2}, std::vector<float>(16, 3))
      .add_tensor("token_embd.weight.patchbay_row_ids", GGML_TYPE_I32, {2}, ids({2, 7}))
      .add_f32("blk.1.attn_k.weight.patchbay_weight", {8, 4}, std::vector<float>(32, 2));
  const auto adapter = load(builder, {.allow_full_modules = true});
  EXPECT_THAT(numbers(adapter->pairs[0].magnitude), ElementsAre(1, 2, 3, 4));
  std::vector<std::string> names;
  for (const auto &replacement : adapter->replacements) names.push_back(replacement.tensor);
  EXPECT_THAT(names,
              ElementsAre("blk.0.attn_q.bias", "blk.1.attn_k.weight", "blk.1.attn_norm.weight",
                          "output_norm.weight", "token_embd.weight"));
  EXPECT_THAT(adapter->replacements.back().rows, ElementsAre(2, 7));
  EXPECT_THAT(failure(builder), HasSubstr("--allow-full-modules"));
}

TEST(GgufExtras, ABiasOfAPairIsKeptBesideItsScale) {
  const auto adapter =
      load(plain().add_f32("blk.0.attn_v.weight.patchbay_lora_bias", {4}, {1, 2, 3, 4}));
  EXPECT_THAT(numbers(adapter->pairs[0].bias), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(adapter->pairs[0].scale, 2);
}

TEST(GgufExtras, WhatDoesNotFitIsRefusedByName) {
  const auto with = [](const std::string &name, const std::vector<int64_t> &ne) {
    int64_t n = 1;
    for (const int64_t dim : ne) n *= dim;
    return failure(plain().add_f32(name, ne, std::vector<float>(static_cast<size_t>(n), 1)));
  };
  EXPECT_THAT(with("blk.0.attn_v.weight.patchbay_dora_m", {5}), HasSubstr("has incorrect shape"));
  EXPECT_THAT(with("blk.0.attn_k.weight.patchbay_dora_m", {4}),
              HasSubstr("is missing one component"));
  EXPECT_THAT(with("blk.0.attn_v.weight.patchbay_lora_bias", {5}),
              HasSubstr("has incorrect shape"));
  EXPECT_THAT(with("blk.0.attn_q.weight.patchbay_bias", {9}), HasSubstr("has incorrect shape"));
  EXPECT_THAT(with("blk.9.attn_q.weight.patchbay_bias", {8}), HasSubstr("has no partner"));
  EXPECT_THAT(with("blk.0.attn_q.patchbay_bias", {8}), HasSubstr("is named after no weight"));
  EXPECT_THAT(with("blk.7.attn_norm.weight.patchbay_norm", {8}), HasSubstr("has no partner"));
  EXPECT_THAT(with("blk.0.attn_q.weight.patchbay_norm", {8, 8}), HasSubstr("role"));
  EXPECT_THAT(with("output_norm.weight.patchbay_weight", {8}), HasSubstr("role"));
  EXPECT_THAT(with("token_embd.weight.patchbay_rows", {8, 2}),
              AllOf(HasSubstr("is missing one component"), HasSubstr("row_ids")));
}

TEST(GgufExtras, TokensOfRowsAscendAndAreInTheVocabulary) {
  const auto with = [](const std::vector<int32_t> &tokens) {
    auto builder = plain();
    builder.add_f32("token_embd.weight.patchbay_rows", {8, 2}, std::vector<float>(16, 3))
        .add_tensor("token_embd.weight.patchbay_row_ids", GGML_TYPE_I32, {2}, ids(tokens));
    return builder;
  };
  EXPECT_THAT(load(with({0, 9}))->replacements, SizeIs(1));
  for (const auto &tokens :
       {std::vector{7, 2}, std::vector{2, 2}, std::vector{-1, 2}, std::vector{2, 10}}) {
    EXPECT_THAT(failure(with(tokens)), HasSubstr("are no tokens"));
  }
}

}  // namespace
}  // namespace patchbay
