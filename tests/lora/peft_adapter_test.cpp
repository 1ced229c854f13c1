#include "lora/peft_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/temp_dir.h"
#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr auto k_layer0 = "model.layers.0.";
constexpr auto k_v0 = "model.layers.0.self_attn.v_proj";
constexpr auto k_key = "base_model.model.model.layers.0.self_attn.v_proj";

std::string failure(const PeftBuilder &builder, const BaseInfo &base = dense_base()) {
  return load_failure([&] { (void)builder.load(base); });
}

PeftBuilder all_linear() {
  PeftBuilder builder;
  int seed = 0;
  for (const auto &[name, n_in, n_out] :
       {std::tuple("self_attn.q_proj", 8, 8), std::tuple("self_attn.k_proj", 8, 4),
        std::tuple("self_attn.v_proj", 8, 4), std::tuple("self_attn.o_proj", 8, 8),
        std::tuple("mlp.gate_proj", 8, 12), std::tuple("mlp.up_proj", 8, 12),
        std::tuple("mlp.down_proj", 12, 8)}) {
    builder.pair(std::string(k_layer0) + name, n_in, n_out, 2, seed++);
  }
  return builder;
}

Matrix picked_rows(const Matrix &matrix, const std::vector<int64_t> &order) {
  Matrix picked{matrix.n_rows, matrix.n_columns};
  for (const int64_t row : order) {
    for (int64_t c = 0; c < matrix.n_columns; ++c) picked.values.push_back(matrix.at(row, c));
  }
  return picked;
}

TEST(PeftAdapter, EveryLinearModuleLandsOnItsTensor) {
  const auto adapter = all_linear().load(dense_base());
  std::vector<std::string> targets;
  for (const auto &pair : adapter->pairs) targets.push_back(pair.target);
  EXPECT_THAT(targets,
              ElementsAre("blk.0.attn_k.weight", "blk.0.attn_output.weight", "blk.0.attn_q.weight",
                          "blk.0.attn_v.weight", "blk.0.ffn_down.weight", "blk.0.ffn_gate.weight",
                          "blk.0.ffn_up.weight"));
  const auto *down = adapter->find("blk.0.ffn_down.weight");
  EXPECT_EQ(down->scale, 2);
  EXPECT_EQ(delta(*down).values, product(numbered(8, 2, 7), numbered(2, 12, 6), 2).values);
  EXPECT_EQ(adapter->alpha, 4);
  EXPECT_EQ(adapter->base_name, "some/tiny-8m");
  EXPECT_THAT(adapter->notes, SizeIs(0));
  EXPECT_FALSE(adapter->cannot_change_output);
}

TEST(PeftAdapter, QueryAndKeyRowsAreReorderedForLlamaAlone) {
  const auto llama = all_linear().load(dense_base());
  // Two query heads of 4 rows, one key head of 4: 0 1 | 2 3 becomes 0 2 1 3.
  EXPECT_EQ(numbers(llama->find("blk.0.attn_q.weight")->b),
            picked_rows(numbered(8, 2, 1), {0, 2, 1, 3, 4, 6, 5, 7}).values);
  EXPECT_EQ(numbers(llama->find("blk.0.attn_k.weight")->b),
            picked_rows(numbered(4, 2, 2), {0, 2, 1, 3}).values);
  EXPECT_EQ(numbers(llama->find("blk.0.attn_q.weight")->a), numbered(2, 8, 0).values);
  EXPECT_EQ(numbers(llama->find("blk.0.attn_v.weight")->b), numbered(4, 2, 3).values);
  const auto gemma = all_linear().load(dense_base("gemma3"));
  EXPECT_EQ(numbers(gemma->find("blk.0.attn_q.weight")->b), numbered(8, 2, 1).values);
  EXPECT_EQ(numbers(gemma->find("blk.0.attn_k.weight")->b), numbered(4, 2, 2).values);
}

TEST(PeftAdapter, EmbeddingPairsAreTransposedToRows) {
  PeftBuilder builder;
  builder.embedding("model.embed_tokens", numbered(2, 10, 1), numbered(8, 2, 2));
  const auto adapter = builder.load(dense_base());
  const auto &pair = adapter->pairs[0];
  EXPECT_EQ(pair.target, "token_embd.weight");
  EXPECT_EQ(pair.kind, UseKind::embed);
  EXPECT_THAT(pair.a.ne, ElementsAre(2, 10, 1));
  EXPECT_THAT(pair.b.ne, ElementsAre(2, 8, 1));
  const auto a = numbers(pair.a);
  for (int64_t t = 0; t < 10; ++t) {
    for (int64_t k = 0; k < 2; ++k) {
      EXPECT_EQ(a[static_cast<size_t>(t * 2 + k)], numbered(2, 10, 1).at(k, t));
    }
  }
  EXPECT_EQ(numbers(pair.b), numbered(8, 2, 2).values);
}

TEST(PeftAdapter, BothUsesOfATiedTableAreAdaptedApart) {
  PeftBuilder builder;
  builder.embedding("model.embed_tokens", numbered(2, 10, 1), numbered(8, 2, 2));
  builder.pair("lm_head", numbered(2, 8, 3), numbered(10, 2, 4));
  const auto adapter = builder.load(dense_base("llama", true));
  EXPECT_THAT(adapter->pairs, SizeIs(2));
  EXPECT_EQ(adapter->find("output.weight")->kind, UseKind::linear);
}

Matrix transposed(const Matrix &matrix) {
  Matrix turned{matrix.n_columns, matrix.n_rows};
  for (int64_t c = 0; c < matrix.n_columns; ++c) {
    for (int64_t r = 0; r < matrix.n_rows; ++r) turned.values.push_back(matrix.at(r, c));
  }
  return turned;
}

TEST(PeftAdapter, TiedPairsMustBeEqual) {
  PeftBuilder builder;
  const Matrix a = numbered(2, 10, 1);
  const Matrix b = numbered(8, 2, 2);
  builder.config["ensure_weight_tying"] = true;
  builder.embedding("model.embed_tokens", a, b);
  EXPECT_THAT(failure(builder, dense_base("llama", true)),
              AllOf(HasSubstr("ensure_weight_tying"), HasSubstr("embed_tokens only")));
  EXPECT_THAT(builder.load(dense_base())->pairs, SizeIs(1));
  builder.pair("lm_head", transposed(b), transposed(a));
  EXPECT_THAT(builder.load(dense_base("llama", true))->pairs, SizeIs(2));
  builder.pair("lm_head", transposed(b), numbered(10, 2, 9));
  EXPECT_THAT(failure(builder, dense_base("llama", true)), HasSubstr("different ones"));
}

TEST(PeftAdapter, EveryKnownFormOfKeysIsTheSameAdapter) {
  const auto wanted = delta(one_pair().load(dense_base())->pairs[0]).values;
  for (const auto &[prefix, infix] :
       {std::pair("base_model.model.", ".default"), std::pair("", ""), std::pair("base_model.", ""),
        std::pair("base_model.model.base_model.model.", ""), std::pair("module.", "")}) {
    PeftBuilder builder;
    const std::string module = std::string(prefix) + k_v0;
    builder.tensors.set(module + ".lora_A" + infix + ".weight", numbered(2, 8));
    builder.tensors.set(module + ".lora_B" + infix + ".weight", numbered(4, 2, 1));
    EXPECT_EQ(delta(builder.load(dense_base())->pairs[0]).values, wanted) << prefix;
  }
  for (const auto *module :
       {"layers.0.self_attn.v_proj", "model.language_model.layers.0.self_attn.v_proj",
        "language_model.model.layers.0.self_attn.v_proj"}) {
    PeftBuilder builder;
    builder.pair(module, 8, 4);
    EXPECT_EQ(delta(builder.load(dense_base())->pairs[0]).values, wanted) << module;
  }
}

TEST(PeftAdapter, TypesOfTheFileStayViewsWhereNothingMoves) {
  PeftBuilder builder;
  const std::string key = k_key;
  builder.tensors.set_f16(key + ".lora_A.weight", numbered(2, 8));
  builder.tensors.set_bf16(key + ".lora_B.weight", numbered(4, 2, 1));
  const auto adapter = builder.load(dense_base());
  const auto &pair = adapter->pairs[0];
  EXPECT_EQ(pair.a.type, GGML_TYPE_F16);
  EXPECT_EQ(pair.b.type, GGML_TYPE_BF16);
  EXPECT_EQ(pair.a.owner, pair.b.owner);
  EXPECT_EQ(adapter->size_bytes, 48U);
  EXPECT_EQ(delta(pair).values, delta(one_pair().load(dense_base())->pairs[0]).values);
}

TEST(PeftAdapter, DoublesAreConvertedAndMustFit) {
  auto builder = one_pair();
  const std::string key = std::string(k_key) + ".lora_A.weight";
  builder.tensors.set_f64(key, 2, 8, std::vector<double>(16, 0.25));
  EXPECT_EQ(numbers(builder.load(dense_base())->pairs[0].a), std::vector<float>(16, 0.25F));
  builder.tensors.set_f64(key, 2, 8, std::vector<double>(16, 1e60));
  EXPECT_THAT(failure(builder), AllOf(HasSubstr(key), HasSubstr("overflows F32")));
}

TEST(PeftAdapter, OtherTypesAreNoFactors) {
  auto builder = one_pair();
  builder.tensors.set(std::string(k_key) + ".lora_A.weight", "I8", {2, 8}, std::string(16, '\1'));
  EXPECT_THAT(failure(builder),
              AllOf(HasSubstr("lora_A"), HasSubstr("cannot be a factor"), HasSubstr("I8")));
}

TEST(PeftAdapter, PatternsGiveEachModuleItsScale) {
  auto builder = all_linear();
  builder.config["alpha_pattern"] = {
      {"layers.0.self_attn.q_proj", 64}, {"q_proj", 2}, {"v_proj|o_proj", 5}};
  const auto adapter = builder.load(dense_base());
  EXPECT_EQ(adapter->find("blk.0.attn_q.weight")->scale, 32);
  EXPECT_EQ(adapter->find("blk.0.attn_v.weight")->scale, 2.5F);
  EXPECT_EQ(adapter->find("blk.0.attn_k.weight")->scale, 2);
  EXPECT_THAT(adapter->notes,
              ElementsAre(AllOf(HasSubstr("alpha_pattern"), HasSubstr("both match"))));
}

TEST(PeftAdapter, RankStabilisedScaleDividesByTheRoot) {
  auto builder = one_pair();
  builder.config["use_rslora"] = true;
  EXPECT_FLOAT_EQ(builder.load(dense_base())->pairs[0].scale, 4 / std::sqrt(2.0F));
}

TEST(PeftAdapter, AlphaOfZeroIsExact) {
  auto builder = one_pair();
  builder.config["lora_alpha"] = 0;
  const auto adapter = builder.load(dense_base());
  EXPECT_EQ(adapter->pairs[0].scale, 0);
  EXPECT_TRUE(adapter->cannot_change_output);
}

TEST(PeftAdapter, AScaleMustFit) {
  auto builder = one_pair();
  builder.config["lora_alpha"] = 1e300;
  EXPECT_THAT(failure(builder), AllOf(HasSubstr(k_v0), HasSubstr("overflows F32")));
}

TEST(PeftAdapter, ParametersAreTargetedByTheirOwnName) {
  auto builder = one_pair();
  builder.config["target_parameters"] = {"v_proj.weight"};
  builder.config["alpha_pattern"] = {{"v_proj", 100}, {"v_proj.weight", 6}};
  EXPECT_EQ(builder.load(dense_base())->pairs[0].scale, 3);
}

TEST(PeftAdapter, InvocationTokensAreKeptAndNotForLookUps) {
  auto builder = one_pair();
  builder.config["alora_invocation_tokens"] = {5, 6};
  EXPECT_THAT(builder.load(dense_base())->invocation_tokens, ElementsAre(5, 6));
  builder.embedding("model.embed_tokens", numbered(2, 10), numbered(8, 2));
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("embed_tokens"), HasSubstr("aLoRA")));
}

TEST(PeftAdapter, TheConfigIsJudgedBeforeAnyWeightIsRead) {
  const TempDir folder;
  auto builder = one_pair();
  builder.config["kasa_config"] = {{"beta", 1}};
  builder.save(folder);
  std::filesystem::remove(folder.path() / "adapter" / "adapter_model.safetensors");
  EXPECT_THAT(
      load_failure([&] { (void)load_peft_adapter(folder.path() / "adapter", dense_base()); }),
      HasSubstr("kasa_config"));
}

TEST(PeftAdapter, HalfAPairIsRefused) {
  auto builder = all_linear();
  builder.tensors.erase(std::string(k_key) + ".lora_B.weight");
  EXPECT_THAT(failure(builder), AllOf(HasSubstr(k_v0), HasSubstr("missing one half")));
  PeftBuilder embed;
  embed.embedding("model.embed_tokens", numbered(2, 10), numbered(8, 2));
  embed.tensors.erase("base_model.model.model.embed_tokens.lora_embedding_A");
  EXPECT_THAT(failure(embed), HasSubstr("lora_embedding_A"));
}

TEST(PeftAdapter, ShapesThatDoNotFitAreRefused) {
  const auto with = [](const Matrix &a, const Matrix &b) {
    PeftBuilder builder;
    builder.pair(k_v0, a, b);
    return failure(builder);
  };
  EXPECT_THAT(with(numbered(2, 7), numbered(4, 2)),
              AllOf(HasSubstr("lora_A.weight has incorrect shape"), HasSubstr("[r, 8]"),
                    HasSubstr("[2, 7]")));
  EXPECT_THAT(with(numbered(2, 8), numbered(8, 2)),
              AllOf(HasSubstr("lora_B.weight has incorrect shape"), HasSubstr("[4, r]")));
  EXPECT_THAT(with(numbered(2, 8), numbered(4, 1)), HasSubstr("another rank than its lora_A"));
  EXPECT_THAT(with(numbered(3, 8), numbered(4, 3)),
              AllOf(HasSubstr("adapter_config.json"), HasSubstr("want 2, found 3")));
  EXPECT_THAT(with(numbered(8, 2), numbered(2, 4)), HasSubstr("has incorrect shape"));
}

TEST(PeftAdapter, EmptyShardsAreRefusedWithTheirReason) {
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{0}, std::vector<int64_t>{0, 8}, std::vector<int64_t>{16},
        std::vector<int64_t>{}, std::vector<int64_t>{2, 4, 2}}) {
    auto builder = one_pair();
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    builder.tensors.set(std::string(k_key) + ".lora_A.weight", "F32", shape,
                        std::string(static_cast<size_t>(n) * 4, '\0'));
    EXPECT_THAT(failure(builder), AllOf(HasSubstr("lora_A"), HasSubstr("ZeRO-3")));
  }
  EXPECT_THAT(failure(PeftBuilder()), AllOf(HasSubstr("no LoRA pair at all"), HasSubstr("ZeRO-3")));
}

TEST(PeftAdapter, NumbersThatAreNotFiniteAreRefusedNamingTheTensor) {
  for (const auto *half : {".lora_A.weight", ".lora_B.weight"}) {
    auto builder = one_pair();
    Matrix bad = half[6] == 'A' ? numbered(2, 8) : numbered(4, 2);
    bad.values[3] = std::numeric_limits<float>::infinity();
    builder.tensors.set(std::string(k_key) + half, bad);
    EXPECT_THAT(failure(builder),
                AllOf(HasSubstr(k_key + std::string(half)), HasSubstr("NaN or infinity")));
  }
}

TEST(PeftAdapter, TensorsOfUnsupportedOptionsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {k_key + std::string(".lora_magnitude_vector"), "use_dora"},
      {k_key + std::string(".lora_B.bias"), "lora_bias"},
      {k_key + std::string(".lora_E"), "AdaLoRA"},
      {k_key + std::string(".lora_diag"), "KaSA"},
      {"base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta",
       "trainable_token_indices"},
      {"base_model.model.model.embed_tokens.token_adapter.something", "is not understood"},
      {"base_model.model.model.layers.0.self_attn.rotary.weight", "does not read"},
      {"base_model.model.lm_head.bias", "does not read"},
      {k_key + std::string(".lora_wow"), "is not understood"},
      {k_key + std::string(".lora_down.weight"), "diffusion"},
      {k_key + std::string(".alpha"), "diffusion"},
      {"base_model.model.model.visual.blocks.0.qkv.lora_A.weight", "vision"},
      {"base_model.model.lm_head.base_layer.weight", "without a pair"},
  };
  for (const auto &[name, reason] : cases) {
    auto builder = one_pair();
    builder.tensors.set(name, "F32", {4}, std::string(16, '\0'));
    EXPECT_THAT(
        failure(builder),
        AllOf(HasSubstr(name.substr(name.rfind("base_model.model.") + 17, 7)), HasSubstr(reason)));
  }
}

TEST(PeftAdapter, WholeTablesAreRefusedAndResizedOnesSaySo) {
  auto builder = one_pair();
  builder.tensors.set("base_model.model.lm_head.weight", numbered(10, 8));
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("output.weight"), HasSubstr("modules_to_save"),
                                      HasSubstr("--allow-full-modules")));
  builder.tensors.set("base_model.model.lm_head.weight", numbered(13, 8));
  EXPECT_THAT(failure(builder), HasSubstr("vocabulary resized: 13 against 10"));
  PeftBuilder pairs;
  pairs.embedding("model.embed_tokens", numbered(2, 13), numbered(8, 2));
  EXPECT_THAT(failure(pairs), HasSubstr("vocabulary resized: 13 against 10"));
  PeftBuilder head;
  head.pair("lm_head", 8, 13);
  EXPECT_THAT(failure(head), HasSubstr("vocabulary resized: 13 against 10"));
}

TEST(PeftAdapter, CopiesAndBuffersAreLeftOutWithACount) {
  PeftBuilder builder;
  builder.embedding("model.embed_tokens", numbered(2, 10), numbered(8, 2));
  const std::string embed = "base_model.model.model.embed_tokens.";
  builder.tensors.set(embed + "base_layer.weight", numbered(10, 8));
  builder.pair(k_v0, 8, 4);
  builder.tensors.set(std::string(k_key) + ".lora_velora_embed", numbered(1, 4));
  EXPECT_THAT(builder.load(dense_base())->notes,
              ElementsAre(HasSubstr("1 tensors that are copies"),
                          HasSubstr("1 tensors that are of use in training")));
  builder.tensors.set(embed + "base_layer.weight", "U8", {40, 1}, std::string(40, '\0'));
  builder.tensors.set(embed + "base_layer.weight.absmax", "F32", {2}, std::string(8, '\0'));
  EXPECT_THAT(builder.load(dense_base())->notes[0], HasSubstr("2 tensors that are copies"));
  builder.tensors.set(embed + "base_layer.weight", numbered(13, 8));
  EXPECT_THAT(failure(builder), HasSubstr("vocabulary resized: 13 against 10"));
}

TEST(PeftAdapter, ModulesThatTheBaseDoesNotHaveAreRefusedByName) {
  PeftBuilder layer;
  layer.pair("model.layers.7.self_attn.v_proj", 8, 4);
  EXPECT_THAT(failure(layer), AllOf(HasSubstr("layers.7"), HasSubstr("want below 2, found 7")));
  auto modules = one_pair();
  for (const auto *name : {"a", "b", "c", "d", "e", "f"}) {
    modules.pair(std::string("model.layers.0.") + name, 8, 4);
  }
  EXPECT_THAT(failure(modules), AllOf(HasSubstr("model.layers.0.a, model.layers.0.b"),
                                      HasSubstr("and 1 more"), HasSubstr("llama")));
  PeftBuilder router;
  router.pair("model.layers.0.mlp.gate", 8, 3);
  EXPECT_THAT(failure(router), HasSubstr("has no partner"));
  EXPECT_THAT(failure(one_pair(), dense_base("falcon")),
              HasSubstr("architecture falcon has no table"));
}

TEST(PeftAdapter, KindsOfPairsMustFitTheirModules) {
  PeftBuilder linear;
  linear.pair("model.embed_tokens", 10, 8);
  EXPECT_THAT(failure(linear), HasSubstr("the module is a look-up"));
  PeftBuilder embed;
  embed.embedding(k_v0, numbered(2, 8), numbered(4, 2));
  EXPECT_THAT(failure(embed), HasSubstr("the module is no look-up"));
  auto both = one_pair();
  both.embedding(k_v0, numbered(2, 8), numbered(4, 2));
  EXPECT_THAT(failure(both), HasSubstr("both a linear and an embedding pair"));
  PeftBuilder nested;
  nested.pair(std::string(k_v0) + ".base_layer", 8, 4);
  EXPECT_THAT(failure(nested), HasSubstr("nested"));
}

TEST(PeftAdapter, OneKeyUnderTwoNamesIsRefused) {
  auto builder = one_pair();
  builder.tensors.set(std::string(k_v0) + ".lora_A.weight", numbered(2, 8));
  EXPECT_THAT(failure(builder), HasSubstr("is there twice"));
  auto wrapped = one_pair();
  wrapped.pair("model.language_model.layers.0.self_attn.v_proj", 8, 4);
  EXPECT_THAT(failure(wrapped), HasSubstr("both adapt blk.0.attn_v.weight"));
  PeftBuilder names;
  names.tensors.set(std::string(k_key) + ".lora_A.one.weight", numbered(2, 8));
  names.tensors.set(std::string(k_key) + ".lora_B.two.weight", numbered(4, 2));
  EXPECT_THAT(failure(names), AllOf(HasSubstr("several adapters"), HasSubstr("one, two")));
}

TEST(PeftAdapter, TargetsWithoutAPairAreNoted) {
  auto builder = one_pair();
  builder.config["target_modules"] = {"v_proj", "q_proj"};
  EXPECT_THAT(builder.load(dense_base())->notes,
              ElementsAre(AllOf(HasSubstr("target_modules"), HasSubstr("'q_proj'"))));
}

TEST(PeftAdapter, AnotherBaseNameIsNotedAsAHint) {
  auto builder = one_pair();
  builder.config["base_model_name_or_path"] = "org/huge-70b";
  EXPECT_THAT(builder.load(dense_base())->notes,
              ElementsAre(AllOf(HasSubstr("org/huge-70b"), HasSubstr("hint"))));
}

TEST(PeftAdapter, WeightsTruncatedAnywhereAreRefused) {
  const TempDir folder;
  const auto base = dense_base();
  const auto builder = one_pair();
  builder.save(folder);
  const auto image = builder.tensors.bytes();
  for (size_t n = 0; n < image.size(); ++n) {
    folder.write("adapter/adapter_model.safetensors", std::string_view(image).substr(0, n));
    EXPECT_THROW((void)load_adapter(folder.path() / "adapter", base), LoadError) << n;
  }
}

TEST(PeftAdapter, AnyBrokenByteIsRefusedOrHarmless) {
  const TempDir folder;
  const auto base = dense_base();
  const auto builder = one_pair();
  builder.save(folder);
  const auto image = builder.tensors.bytes();
  size_t n_refused = 0;
  for (size_t i = 0; i < image.size(); ++i) {
    auto broken = image;
    broken[i] = static_cast<char>(broken[i] ^ (i % 2 == 0 ? '\xff' : '\x01'));
    folder.write("adapter/adapter_model.safetensors", broken);
    try {
      ASSERT_THAT(load_adapter(folder.path() / "adapter", base)->pairs, SizeIs(1));
    } catch (const LoadError &) {
      n_refused++;
    }
  }
  EXPECT_GT(n_refused, image.size() / 4);
}

}  // namespace
}  // namespace patchbay
