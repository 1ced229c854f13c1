#include "lora/gguf_adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

GgufBuilder header() {
  GgufBuilder builder;
  builder.set("general.type", "adapter")
      .set("general.architecture", "llama")
      .set("adapter.type", "lora");
  return builder;
}

std::vector<float> counting(const std::vector<int64_t> &ne, float first = 1) {
  int64_t n = 1;
  for (const int64_t dim : ne) n *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(first + static_cast<float>(i));
  return values;
}

GgufBuilder &add_pair(GgufBuilder &builder, const std::string &target,
                      const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
  return builder.add_f32(target + ".lora_a", a, counting(a))
      .add_f32(target + ".lora_b", b, counting(b, 100));
}

/// One sound pair of rank 2 on attn_v of layer 0.
GgufBuilder plain() {
  auto builder = header();
  return add_pair(builder, "blk.0.attn_v.weight", {8, 2}, {2, 4});
}

std::shared_ptr<const Adapter> load(const GgufBuilder &builder,
                                    const BaseInfo &base = dense_base()) {
  const TempDir folder;
  return load_adapter(folder.write("adapter.gguf", builder.bytes()), base);
}

std::string failure(const GgufBuilder &builder, const BaseInfo &base = dense_base()) {
  return load_failure([&] { (void)load(builder, base); });
}

TEST(GgufAdapter, PlainPairLoads) {
  auto builder = plain().set("adapter.lora.alpha", 8.0F).set("adapter.lora.task_name", "rate");
  builder.set("adapter.lora.prompt_prefix", "Rate: ").set("general.base_model.0.name", "Tiny 8m");
  const TempDir folder;
  const auto path = folder.write("my, best: Überadapter.gguf", builder.bytes());
  const auto adapter = load_adapter(path, dense_base());
  EXPECT_EQ(adapter->name, "my, best: Überadapter");
  EXPECT_EQ(adapter->path, path.string());
  EXPECT_EQ(adapter->format, AdapterFormat::gguf);
  EXPECT_EQ(adapter->alpha, 8);
  EXPECT_EQ(adapter->task_name, "rate");
  EXPECT_EQ(adapter->prompt_prefix, "Rate: ");
  EXPECT_EQ(adapter->base_name, "Tiny 8m");
  EXPECT_THAT(adapter->notes, SizeIs(0));
  EXPECT_FALSE(adapter->cannot_change_output);
  EXPECT_EQ(adapter->size_bytes, (16U + 8U) * 4);
  const auto *pair = adapter->find("blk.0.attn_v.weight");
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->kind, UseKind::linear);
  EXPECT_EQ(pair->n_rank, 2);
  EXPECT_EQ(pair->scale, 4);
  EXPECT_EQ(numbers(pair->a), counting({8, 2}));
  EXPECT_EQ(numbers(pair->b), counting({2, 4}, 100));
  EXPECT_EQ(adapter->find("blk.1.attn_v.weight"), nullptr);
}

TEST(GgufAdapter, AlphaAbsentOrZeroMeansScaleOne) {
  EXPECT_EQ(load(plain())->pairs[0].scale, 1);
  EXPECT_EQ(load(plain().set("adapter.lora.alpha", 0.0F))->pairs[0].scale, 1);
  EXPECT_EQ(load(plain().set("adapter.lora.alpha", -0.0F))->pairs[0].scale, 1);
}

TEST(GgufAdapter, AlphaMayBeAnyKindOfNumber) {
  EXPECT_EQ(load(plain().set("adapter.lora.alpha", 3.0))->pairs[0].scale, 1.5F);
  EXPECT_EQ(load(plain().set("adapter.lora.alpha", uint32_t{3}))->pairs[0].scale, 1.5F);
  EXPECT_EQ(load(plain().set("adapter.lora.alpha", int64_t{-3}))->pairs[0].scale, -1.5F);
}

TEST(GgufAdapter, AlphaMustBeFiniteAndFit) {
  constexpr auto k_key = "adapter.lora.alpha";
  constexpr auto k_nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(failure(plain().set(k_key, k_nan)), AllOf(HasSubstr(k_key), HasSubstr("finite")));
  EXPECT_THAT(failure(plain().set(k_key, INFINITY)), HasSubstr("finite"));
  EXPECT_THAT(failure(plain().set(k_key, 1e300)), HasSubstr("too large"));
}

TEST(GgufAdapter, HeaderOfAnotherKindIsRefused) {
  GgufBuilder model;
  model.set("general.type", "model").set("general.architecture", "llama");
  EXPECT_THAT(failure(model),
              AllOf(HasSubstr("expect general.type to be 'adapter'"), HasSubstr("'model'")));
  EXPECT_THAT(failure(GgufBuilder().set("general.architecture", "llama")),
              AllOf(HasSubstr("expect general.type to be 'adapter'"), HasSubstr("nothing")));
  GgufBuilder other;
  other.set("general.type", "adapter").set("general.architecture", "qwen2");
  EXPECT_THAT(failure(other), AllOf(HasSubstr("model arch and LoRA arch mismatch"),
                                    HasSubstr("'llama'"), HasSubstr("'qwen2'")));
  GgufBuilder type;
  type.set("general.type", "adapter").set("general.architecture", "llama");
  EXPECT_THAT(failure(type), HasSubstr("expect adapter.type to be 'lora'"));
  EXPECT_THAT(failure(type.set("adapter.type", "dora")),
              AllOf(HasSubstr("expect adapter.type to be 'lora'"), HasSubstr("'dora'")));
}

TEST(GgufAdapter, EveryMetadataTypeButTheRightOnesIsRefused) {
  const std::vector<std::pair<GgufType, std::string>> values = {
      {GgufType::u8, raw_bytes<uint8_t>(1)},   {GgufType::i8, raw_bytes<int8_t>(1)},
      {GgufType::u16, raw_bytes<uint16_t>(1)}, {GgufType::i16, raw_bytes<int16_t>(1)},
      {GgufType::u32, raw_bytes<uint32_t>(1)}, {GgufType::i32, raw_bytes<int32_t>(1)},
      {GgufType::f32, raw_bytes<float>(1)},    {GgufType::boolean, raw_bytes<uint8_t>(1)},
      {GgufType::string, raw_string("1")},     {GgufType::u64, raw_bytes<uint64_t>(1)},
      {GgufType::i64, raw_bytes<int64_t>(1)},  {GgufType::f64, raw_bytes<double>(1)},
  };
  const auto with = [](const std::string &key, GgufType type, const std::string &payload) {
    GgufBuilder builder;
    for (const auto *known : {"general.type", "general.architecture", "adapter.type"}) {
      if (key == known) continue;
      builder.set(known, std::string_view(known) == "general.type"   ? "adapter"
                         : std::string_view(known) == "adapter.type" ? "lora"
                                                                     : "llama");
    }
    add_pair(builder, "blk.0.attn_v.weight", {8, 2}, {2, 4});
    return builder.set_raw(key, type, payload);
  };
  for (const auto &[type, payload] : values) {
    const auto array = raw_bytes(static_cast<uint32_t>(type)) + raw_bytes<uint64_t>(1) + payload;
    for (const auto *key : {"general.type", "general.architecture", "adapter.type"}) {
      EXPECT_THAT(failure(with(key, type, payload)), HasSubstr(key));
      EXPECT_THAT(failure(with(key, GgufType::array, array)), HasSubstr(key));
    }
    for (const auto *key :
         {"adapter.lora.task_name", "adapter.lora.prompt_prefix", "general.base_model.0.name"}) {
      EXPECT_THAT(failure(with(key, GgufType::array, array)), HasSubstr(key));
      if (type == GgufType::string) continue;
      EXPECT_THAT(failure(with(key, type, payload)), HasSubstr(key));
    }
    const auto *alpha = "adapter.lora.alpha";
    EXPECT_THAT(failure(with(alpha, GgufType::array, array)), HasSubstr(alpha));
    const bool is_number = type != GgufType::string && type != GgufType::boolean;
    if (is_number) {
      EXPECT_EQ(load(with(alpha, type, payload))->pairs[0].scale, 0.5F);
    } else {
      EXPECT_THAT(failure(with(alpha, type, payload)), HasSubstr(alpha));
    }
    const auto *tokens = "adapter.alora.invocation_tokens";
    EXPECT_THAT(failure(with(tokens, type, payload)), HasSubstr(tokens));
    const bool is_integer = is_number && type != GgufType::f32 && type != GgufType::f64;
    if (is_integer) {
      EXPECT_THAT(load(with(tokens, GgufType::array, array))->invocation_tokens, ElementsAre(1));
    } else {
      EXPECT_THAT(failure(with(tokens, GgufType::array, array)), HasSubstr(tokens));
    }
  }
}

TEST(GgufAdapter, InvocationTokensMustBeOfTheVocabulary) {
  constexpr auto k_key = "adapter.alora.invocation_tokens";
  EXPECT_THAT(load(plain().set_array<int32_t>(k_key, {5, 9}))->invocation_tokens,
              ElementsAre(5, 9));
  EXPECT_THAT(load(plain().set_array<uint32_t>(k_key, {0}))->invocation_tokens, ElementsAre(0));
  EXPECT_THAT(load(plain())->invocation_tokens, SizeIs(0));
  EXPECT_THAT(failure(plain().set_array<int32_t>(k_key, {-1})), HasSubstr(k_key));
  EXPECT_THAT(failure(plain().set_array<uint32_t>(k_key, {1, 10})),
              AllOf(HasSubstr(k_key), HasSubstr("below 10")));
}

TEST(GgufAdapter, TensorsThatAreNoHalvesAreRefusedByName) {
  const auto with = [](const std::string &name) {
    return failure(plain().add_f32(name, {4}, {1, 2, 3, 4}));
  };
  EXPECT_THAT(with("blk.0.attn_q.weight"),
              AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("has unexpected suffix")));
  EXPECT_THAT(with("x"), HasSubstr("has unexpected suffix"));
  EXPECT_THAT(with(".lora_a"), HasSubstr("has unexpected suffix"));
  EXPECT_THAT(with("blk.0.attn_q.weight.patchbay_new_thing"),
              AllOf(HasSubstr("patchbay_new_thing"), HasSubstr("cannot apply")));
  EXPECT_THAT(with(".patchbay_norm"), HasSubstr("has unexpected suffix"));
}

TEST(GgufAdapter, HalfAPairIsRefused) {
  EXPECT_THAT(failure(plain().add_f32("blk.1.attn_v.weight.lora_a", {8, 2}, counting({8, 2}))),
              AllOf(HasSubstr("blk.1.attn_v.weight"), HasSubstr("is missing one component"),
                    HasSubstr("lora_a only")));
  EXPECT_THAT(failure(plain().add_f32("blk.1.attn_v.weight.lora_b", {2, 4}, counting({2, 4}))),
              AllOf(HasSubstr("is missing one component"), HasSubstr("lora_b only")));
}

TEST(GgufAdapter, NoPairAtAllIsRefused) {
  EXPECT_THAT(failure(header()), HasSubstr("no LoRA pair at all"));
}

TEST(GgufAdapter, TargetsThatTheGraphDoesNotReadAreRefusedTogether) {
  auto builder = plain();
  for (const auto *target : {"blk.0.a.weight", "blk.0.b.weight", "blk.0.c.weight", "blk.0.d.weight",
                             "blk.0.e.weight", "blk.7.attn_v.weight"}) {
    add_pair(builder, target, {8, 2}, {2, 4});
  }
  EXPECT_THAT(failure(builder), AllOf(HasSubstr("blk.0.a.weight"), HasSubstr("and 1 more"),
                                      HasSubstr("has no partner")));
}

std::string shape_failure(const std::string &target, const std::vector<int64_t> &a,
                          const std::vector<int64_t> &b, const BaseInfo &base = dense_base()) {
  auto builder = header();
  return failure(add_pair(builder, target, a, b), base);
}

TEST(GgufAdapter, ShapesThatDoNotFitAreRefused) {
  const std::string q = "blk.0.attn_v.weight";
  EXPECT_THAT(shape_failure(q, {9, 2}, {2, 4}),
              AllOf(HasSubstr(q + ".lora_a has incorrect shape"), HasSubstr("[8, r]"),
                    HasSubstr("[9, 2]"), Not(HasSubstr("transposed"))));
  EXPECT_THAT(shape_failure(q, {8, 2}, {2, 5}),
              AllOf(HasSubstr(q + ".lora_b has incorrect shape"), HasSubstr("[r, 4]")));
  EXPECT_THAT(shape_failure(q, {8, 3}, {2, 4}), HasSubstr("lora_a tensor is not transposed"));
  EXPECT_THAT(shape_failure(q, {2, 8}, {2, 4}),
              AllOf(HasSubstr("has incorrect shape"), HasSubstr("is not transposed")));
  EXPECT_THAT(shape_failure(q, {8, 2, 2}, {2, 4}), HasSubstr("has incorrect shape"));
  EXPECT_THAT(shape_failure(q, {8, 2}, {2, 4, 2}), HasSubstr("has incorrect shape"));
  EXPECT_THAT(shape_failure(q, {8, 2, 1, 2}, {2, 4}), HasSubstr("has incorrect shape"));
}

TEST(GgufAdapter, EmptyFactorsAreRefused) {
  EXPECT_NE(shape_failure("blk.0.attn_v.weight", {8, 0}, {0, 4}), "");
}

TEST(GgufAdapter, RanksMayDifferFromTensorToTensor) {
  auto builder = plain().set("adapter.lora.alpha", 6.0F);
  add_pair(builder, "blk.1.attn_q.weight", {8, 3}, {3, 8});
  add_pair(builder, "blk.0.ffn_down.weight", {12, 1}, {1, 8});
  const auto adapter = load(builder);
  ASSERT_THAT(adapter->pairs, SizeIs(3));
  EXPECT_EQ(adapter->pairs[0].target, "blk.0.attn_v.weight");
  EXPECT_EQ(adapter->pairs[1].target, "blk.0.ffn_down.weight");
  EXPECT_EQ(adapter->pairs[2].target, "blk.1.attn_q.weight");
  EXPECT_EQ(adapter->pairs[0].scale, 3);
  EXPECT_EQ(adapter->pairs[1].scale, 6);
  EXPECT_EQ(adapter->pairs[2].scale, 2);
}

TEST(GgufAdapter, LookUpPairsAreFlipped) {
  auto builder = header();
  const auto adapter = load(add_pair(builder, "token_embd.weight", {2, 10}, {2, 8}));
  EXPECT_EQ(adapter->pairs[0].kind, UseKind::embed);
  EXPECT_EQ(adapter->pairs[0].n_rank, 2);
  EXPECT_THAT(shape_failure("token_embd.weight", {2, 11}, {2, 8}),
              AllOf(HasSubstr("has incorrect shape"), HasSubstr("[r, 10]")));
  EXPECT_THAT(shape_failure("token_embd.weight", {10, 2}, {2, 8}), HasSubstr("not transposed"));
  EXPECT_THAT(shape_failure("token_embd.weight", {3, 10}, {2, 8}), HasSubstr("not transposed"));
}

TEST(GgufAdapter, BothUsesOfATiedTableMayBeAdapted) {
  auto builder = header();
  add_pair(builder, "token_embd.weight", {2, 10}, {2, 8});
  add_pair(builder, "output.weight", {8, 3}, {3, 10});
  const auto adapter = load(builder, dense_base("llama", true));
  EXPECT_EQ(adapter->find("output.weight")->kind, UseKind::linear);
  EXPECT_EQ(adapter->find("token_embd.weight")->kind, UseKind::embed);
}

TEST(GgufAdapter, ExpertPairsMustHaveEveryExpert) {
  const std::string target = "blk.0.ffn_gate_exps.weight";
  auto builder = header();
  const auto adapter = load(add_pair(builder, target, {8, 2, 3}, {2, 12, 3}), expert_base());
  EXPECT_EQ(adapter->pairs[0].kind, UseKind::experts);
  EXPECT_THAT(shape_failure(target, {8, 2, 2}, {2, 12, 3}, expert_base()),
              AllOf(HasSubstr("has incorrect shape"), HasSubstr("[8, r, 3]")));
  EXPECT_THAT(shape_failure(target, {8, 2, 3}, {2, 12, 4}, expert_base()),
              AllOf(HasSubstr("has incorrect shape"), HasSubstr("[r, 12, 3]")));
  EXPECT_THAT(shape_failure(target, {8, 6}, {6, 12}, expert_base()),
              HasSubstr("has incorrect shape"));
}

TEST(GgufAdapter, HalfPrecisionFactorsStayViews) {
  auto builder = header();
  std::string a;
  std::string b;
  for (int i = 0; i < 16; ++i) a += raw_bytes(ggml_fp32_to_fp16(static_cast<float>(i)));
  for (int i = 0; i < 8; ++i) b += raw_bytes(ggml_fp32_to_bf16(static_cast<float>(i)).bits);
  builder.add_tensor("blk.0.attn_v.weight.lora_a", GGML_TYPE_F16, {8, 2}, a)
      .add_tensor("blk.0.attn_v.weight.lora_b", GGML_TYPE_BF16, {2, 4}, b);
  const auto adapter = load(builder);
  EXPECT_EQ(adapter->pairs[0].a.type, GGML_TYPE_F16);
  EXPECT_EQ(adapter->pairs[0].b.type, GGML_TYPE_BF16);
  EXPECT_EQ(adapter->size_bytes, 48U);
  EXPECT_EQ(numbers(adapter->pairs[0].b), counting({2, 4}, 0));
}

TEST(GgufAdapter, QuantisedFactorsAreDequantised) {
  BaseInfo base = dense_base();
  add_linear(base, "blk.0.wide", 32, 32);
  const std::vector<float> a = counting({32, 32}, -512);
  for (const auto type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q5_1}) {
    std::string quantised(ggml_row_size(type, 32) * 32, '\0');
    ggml_quantize_chunk(type, a.data(), quantised.data(), 0, 32, 32, nullptr);
    auto builder = header();
    builder.add_tensor("blk.0.wide.weight.lora_a", type, {32, 32}, quantised)
        .add_f32("blk.0.wide.weight.lora_b", {32, 32}, a);
    const auto adapter = load(builder, base);
    EXPECT_EQ(adapter->pairs[0].a.type, GGML_TYPE_F32);
    const auto found = numbers(adapter->pairs[0].a);
    // A block of 32 holds values 1 apart from first to last; Q4_0 keeps 16 levels of its largest.
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(found[i], a[i], 70) << ggml_type_name(type);
    EXPECT_NEAR(found[0], a[0], 6);
  }
}

TEST(GgufAdapter, DoublesAreConvertedAndIntegersRefused) {
  const auto with_a = [](ggml_type type, const std::string &data) {
    auto builder = header();
    return builder.add_tensor("blk.0.attn_v.weight.lora_a", type, {8, 1}, data)
        .add_f32("blk.0.attn_v.weight.lora_b", {1, 4}, {1, 2, 3, 4});
  };
  std::string doubles;
  for (int i = 0; i < 8; ++i) doubles += raw_bytes(static_cast<double>(i));
  EXPECT_EQ(numbers(load(with_a(GGML_TYPE_F64, doubles))->pairs[0].a), counting({8}, 0));
  doubles.replace(0, 8, raw_bytes(1e200));
  EXPECT_THAT(failure(with_a(GGML_TYPE_F64, doubles)), HasSubstr("overflows F32"));
  EXPECT_THAT(failure(with_a(GGML_TYPE_I32, std::string(32, '\1'))),
              AllOf(HasSubstr("lora_a"), HasSubstr("cannot be a factor")));
}

TEST(GgufAdapter, NumbersThatAreNotFiniteAreRefusedNamingTheTensor) {
  auto builder = header();
  auto values = counting({2, 4});
  values[5] = std::numeric_limits<float>::quiet_NaN();
  builder.add_f32("blk.0.attn_v.weight.lora_a", {8, 2}, counting({8, 2}))
      .add_f32("blk.0.attn_v.weight.lora_b", {2, 4}, values);
  EXPECT_THAT(failure(builder), HasSubstr("blk.0.attn_v.weight.lora_b holds NaN or infinity"));
}

TEST(GgufAdapter, ZeroBIsReportedAndLoads) {
  auto builder = header();
  builder.add_f32("blk.0.attn_v.weight.lora_a", {8, 1}, counting({8}))
      .add_f32("blk.0.attn_v.weight.lora_b", {1, 4}, {0, 0, -0.0F, 0});
  const auto adapter = load(builder);
  EXPECT_TRUE(adapter->cannot_change_output);
  EXPECT_THAT(adapter->notes, ElementsAre(HasSubstr("cannot change the output")));
}

TEST(GgufAdapter, AnotherBaseNameIsNotedAsAHint) {
  const auto adapter = load(plain().set("general.base_model.0.name", "Huge 70b"));
  EXPECT_THAT(adapter->notes,
              ElementsAre(AllOf(HasSubstr("Huge 70b"), HasSubstr("Tiny 8m"), HasSubstr("hint"))));
}

TEST(GgufAdapter, TruncatedAnywhereIsRefused) {
  const TempDir folder;
  const auto base = dense_base();
  auto builder = plain().set("adapter.lora.alpha", 8.0F);
  builder.set_array<uint32_t>("adapter.alora.invocation_tokens", {1, 2});
  const auto image = builder.bytes();
  EXPECT_NE(load_adapter(folder.write("a.gguf", image), base), nullptr);
  for (size_t n = 0; n < image.size(); ++n) {
    const auto path = folder.write("a.gguf", std::string_view(image).substr(0, n));
    EXPECT_THROW((void)load_adapter(path, base), LoadError) << n;
  }
}

TEST(GgufAdapter, AnyBrokenByteIsRefusedOrHarmless) {
  const TempDir folder;
  const auto base = dense_base();
  const auto image = plain().set("adapter.lora.alpha", 8.0F).bytes();
  size_t n_refused = 0;
  for (size_t i = 0; i < image.size(); ++i) {
    auto broken = image;
    broken[i] = static_cast<char>(broken[i] ^ (i % 2 == 0 ? '\xff' : '\x01'));
    try {
      const auto adapter = load_adapter(folder.write("a.gguf", broken), base);
      ASSERT_THAT(adapter->pairs, SizeIs(1));
    } catch (const LoadError &) {
      n_refused++;
    }
  }
  EXPECT_GT(n_refused, image.size() / 4);
}

}  // namespace
}  // namespace patchbay
