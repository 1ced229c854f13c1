#include "gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/temp_dir.h"
#include "gguf/byte_reader.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Optional;

class GgufFileTest : public testing::Test {
 protected:
  GgufFile reopen(const GgufBuilder &builder) {
    return GgufFile::open(dir_.write("m.gguf", builder.bytes()));
  }

  TempDir dir_;
};

GgufBuilder every_scalar() {
  GgufBuilder builder;
  builder.set("u8", uint8_t{200}).set("i8", int8_t{-100});
  builder.set("u16", uint16_t{60000}).set("i16", int16_t{-30000});
  builder.set("u32", uint32_t{4'000'000'000}).set("i32", int32_t{-2'000'000'000});
  builder.set("u64", UINT64_MAX).set("i64", std::numeric_limits<int64_t>::min());
  builder.set("f32", 0.5F).set("f64", 1e300);
  builder.set("true", true).set("false", false);
  builder.set("string", "h\u00e9llo").set("empty", "");
  return builder;
}

TEST_F(GgufFileTest, EveryScalarTypeReadsBack) {
  const auto file = reopen(every_scalar());
  EXPECT_EQ(file.entries().size(), 14U);
  EXPECT_THAT(file.get_u64("u8"), Optional(200U));
  EXPECT_THAT(file.get_i64("i8"), Optional(-100));
  EXPECT_THAT(file.get_u64("u16"), Optional(60000U));
  EXPECT_THAT(file.get_i64("i16"), Optional(-30000));
  EXPECT_THAT(file.get_u32("u32"), Optional(4'000'000'000U));
  EXPECT_THAT(file.get_i64("u32"), Optional(4'000'000'000));
  EXPECT_THAT(file.get_i64("i32"), Optional(-2'000'000'000));
  EXPECT_THAT(file.get_u64("u64"), Optional(UINT64_MAX));
  EXPECT_THAT(file.get_i64("i64"), Optional(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(file.get_f64("f32"), Optional(0.5));
  EXPECT_THAT(file.get_f64("f64"), Optional(1e300));
  EXPECT_THAT(file.get_f64("i8"), Optional(-100.0));
  EXPECT_THAT(file.get_f64("u64"), Optional(std::ldexp(1.0, 64)));
  EXPECT_THAT(file.get_bool("true"), Optional(true));
  EXPECT_THAT(file.get_bool("false"), Optional(false));
  EXPECT_THAT(file.get_string("string"), Optional(std::string("h\u00e9llo")));
  EXPECT_THAT(file.get_string("empty"), Optional(std::string()));
}

TEST_F(GgufFileTest, EveryArrayTypeReadsBack) {
  GgufBuilder builder;
  builder.set_array("u8", std::vector<uint8_t>{0, 255});
  builder.set_array("i8", std::vector<int8_t>{-128, 127});
  builder.set_array("u16", std::vector<uint16_t>{65535});
  builder.set_array("i16", std::vector<int16_t>{-32768});
  builder.set_array("u32", std::vector<uint32_t>{UINT32_MAX});
  builder.set_array("i32", std::vector<int32_t>{1, -2, 3});
  builder.set_array("u64", std::vector<uint64_t>{7});
  builder.set_array("i64", std::vector<int64_t>{-7});
  builder.set_array("f32", std::vector<float>{1.5F, -2.5F});
  builder.set_array("f64", std::vector<double>{0.25});
  builder.set_array("bool", std::vector<bool>{true, false, true});
  builder.set_array("string", std::vector<std::string>{"a", "", "ccc"});
  builder.set_array("none", std::vector<uint32_t>{});
  const auto file = reopen(builder);
  EXPECT_THAT(file.get_ints("u8"), Optional(ElementsAre(0, 255)));
  EXPECT_THAT(file.get_ints("i8"), Optional(ElementsAre(-128, 127)));
  EXPECT_THAT(file.get_ints("u16"), Optional(ElementsAre(65535)));
  EXPECT_THAT(file.get_ints("i16"), Optional(ElementsAre(-32768)));
  EXPECT_THAT(file.get_ints("u32"), Optional(ElementsAre(4'294'967'295)));
  EXPECT_THAT(file.get_ints("i32"), Optional(ElementsAre(1, -2, 3)));
  EXPECT_THAT(file.get_ints("u64"), Optional(ElementsAre(7)));
  EXPECT_THAT(file.get_ints("i64"), Optional(ElementsAre(-7)));
  EXPECT_THAT(file.get_floats("f32"), Optional(ElementsAre(1.5F, -2.5F)));
  EXPECT_THAT(file.get_floats("f64"), Optional(ElementsAre(0.25F)));
  EXPECT_THAT(file.get_bools("bool"), Optional(ElementsAre(true, false, true)));
  EXPECT_THAT(file.get_strings("string"), Optional(ElementsAre("a", "", "ccc")));
  EXPECT_THAT(file.get_ints("none"), Optional(IsEmpty()));
  EXPECT_EQ(file.find_entry("i32")->n_items, 3U);
  EXPECT_EQ(file.find_entry("i32")->item_type, GgufType::i32);
  EXPECT_EQ(file.find_entry("i32")->bytes.size(), 12U);
}

TEST_F(GgufFileTest, AbsentKeysAreNulloptOrMissing) {
  const auto file = reopen(GgufBuilder());
  EXPECT_FALSE(file.has("general.name"));
  EXPECT_EQ(file.get_string("general.name"), std::nullopt);
  EXPECT_EQ(file.get_ints("general.name"), std::nullopt);
  EXPECT_EQ(file.find_tensor("x"), nullptr);
  const auto missing = HasSubstr("m.gguf: general.name is missing");
  EXPECT_THAT(load_failure([&] { (void)file.require_string("general.name"); }), missing);
  EXPECT_THAT(load_failure([&] { (void)file.require_u32("general.name"); }), missing);
  EXPECT_THAT(load_failure([&] { (void)file.require_f64("general.name"); }), missing);
}

TEST_F(GgufFileTest, AValueOfAnotherKindIsRefusedWithBothTypes) {
  auto builder = every_scalar();
  builder.set_array("array", std::vector<std::string>{"a"});
  const auto file = reopen(builder);
  EXPECT_THAT(load_failure([&] { (void)file.get_u64("string"); }),
              HasSubstr("m.gguf: string has a value of the wrong type: want an integer, found "
                        "string"));
  EXPECT_THAT(load_failure([&] { (void)file.get_u32("f32"); }), HasSubstr("found f32"));
  EXPECT_THAT(load_failure([&] { (void)file.get_i64("true"); }), HasSubstr("found bool"));
  EXPECT_THAT(load_failure([&] { (void)file.get_f64("true"); }), HasSubstr("want a number"));
  EXPECT_THAT(load_failure([&] { (void)file.get_bool("u8"); }), HasSubstr("want bool, found u8"));
  EXPECT_THAT(load_failure([&] { (void)file.get_string("array"); }),
              HasSubstr("want string, found array of string"));
  EXPECT_THAT(load_failure([&] { (void)file.get_ints("array"); }),
              HasSubstr("want array of integers, found array of string"));
  EXPECT_THAT(load_failure([&] { (void)file.get_ints("u8"); }), HasSubstr("found u8"));
  EXPECT_THAT(load_failure([&] { (void)file.get_floats("f32"); }), HasSubstr("found f32"));
  EXPECT_THAT(load_failure([&] { (void)file.get_bools("true"); }), HasSubstr("found bool"));
  EXPECT_THAT(load_failure([&] { (void)file.get_strings("string"); }), HasSubstr("found string"));
}

TEST_F(GgufFileTest, AnIntegerThatDoesNotFitIsRefusedWithItsValue) {
  auto builder = every_scalar();
  builder.set_array("big", std::vector<uint64_t>{1, UINT64_MAX});
  const auto file = reopen(builder);
  EXPECT_THAT(load_failure([&] { (void)file.get_u64("i8"); }),
              HasSubstr("want 0 or more, found -100"));
  EXPECT_THAT(load_failure([&] { (void)file.get_i64("u64"); }),
              HasSubstr("found 18446744073709551615"));
  EXPECT_THAT(load_failure([&] { (void)file.get_u32("u64"); }),
              HasSubstr("want at most 4294967295"));
  EXPECT_THAT(load_failure([&] { (void)file.get_u32("u8", 199); }),
              HasSubstr("u8 has a value out of range: want at most 199, found 200"));
  EXPECT_THAT(file.get_u32("u8", 200), Optional(200U));
  EXPECT_THAT(load_failure([&] { (void)file.get_ints("big"); }), HasSubstr("out of range"));
}

TEST_F(GgufFileTest, ArraysOfArraysAreSkippedAndRefusedToTypedAccess) {
  const std::string inner = raw_bytes(static_cast<uint32_t>(GgufType::string)) +
                            raw_bytes<uint64_t>(2) + raw_string("a") + raw_string("bb");
  GgufBuilder builder;
  builder.set_raw_array("nested", GgufType::array, 2, inner + inner).set("after", 5U);
  const auto file = reopen(builder);
  EXPECT_THAT(file.get_u32("after"), Optional(5U));
  EXPECT_EQ(as_text(file.find_entry("nested")->bytes), inner + inner);
  EXPECT_THAT(load_failure([&] { (void)file.get_ints("nested"); }),
              HasSubstr("found array of array"));
  EXPECT_THAT(load_failure([&] { (void)file.get_strings("nested"); }),
              HasSubstr("found array of array"));
}

TEST_F(GgufFileTest, TensorsReadBackInFileOrder) {
  GgufBuilder builder;
  builder.add_f32("b.weight", {3, 2}, {1, 2, 3, 4, 5, 6});
  builder.add_tensor("a.weight", GGML_TYPE_Q8_0, {64, 1, 2, 1}, std::string(4 * 34, 'q'));
  builder.add_tensor("c", GGML_TYPE_F16, {1}, "hf");
  const auto file = reopen(builder);
  ASSERT_EQ(file.tensors().size(), 3U);
  const auto &b = file.tensors()[0];
  EXPECT_EQ(b.name, "b.weight");
  EXPECT_EQ(b.type, GGML_TYPE_F32);
  EXPECT_EQ(b.n_dims, 2);
  EXPECT_THAT(b.ne, ElementsAre(3, 2, 1, 1));
  ASSERT_EQ(b.data.size(), 24U);
  EXPECT_EQ(reinterpret_cast<const float *>(b.data.data())[5], 6.0F);
  const auto *a = file.find_tensor("a.weight");
  ASSERT_EQ(a, &file.tensors()[1]);
  EXPECT_EQ(a->n_dims, 4);
  EXPECT_THAT(a->ne, ElementsAre(64, 1, 2, 1));
  EXPECT_EQ(as_text(a->data), std::string(4 * 34, 'q'));
  EXPECT_EQ(as_text(file.find_tensor("c")->data), "hf");
  EXPECT_EQ(file.version(), 3U);
}

TEST_F(GgufFileTest, EveryTypeThatGgmlKnowsReadsBackWithItsSize) {
  GgufBuilder builder;
  std::vector<std::pair<std::string, size_t>> wanted;
  for (int number = 0; number < GGML_TYPE_COUNT; number++) {
    const auto type = static_cast<ggml_type>(number);
    if (ggml_type_size(type) == 0) continue;
    const size_t n_bytes = 3 * ggml_type_size(type);
    wanted.emplace_back("t" + std::to_string(number), n_bytes);
    builder.add_tensor(wanted.back().first, type, {ggml_blck_size(type), 3},
                       std::string(n_bytes, 'x'));
  }
  ASSERT_GT(wanted.size(), 30U);
  const auto file = reopen(builder);
  for (const auto &[name, n_bytes] : wanted) {
    ASSERT_NE(file.find_tensor(name), nullptr) << name;
    EXPECT_EQ(file.find_tensor(name)->data.size(), n_bytes) << name;
  }
}

TEST_F(GgufFileTest, DataIsAlignedInMemoryAsTheFileSays) {
  for (const uint32_t alignment : {8U, 32U, 64U, 4096U}) {
    GgufBuilder builder;
    builder.alignment(alignment).add_f32("a", {1}, {1}).add_f32("b", {1}, {2});
    const auto file = reopen(builder);
    for (const auto &tensor : file.tensors()) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data.data()) % alignment, 0U) << alignment;
    }
    EXPECT_EQ(*reinterpret_cast<const float *>(file.find_tensor("b")->data.data()), 2.0F);
  }
}

TEST_F(GgufFileTest, Version2ReadsLikeVersion3) {
  GgufBuilder builder(2);
  builder.set("n", 4U).add_f32("a", {1}, {1});
  const auto file = reopen(builder);
  EXPECT_EQ(file.version(), 2U);
  EXPECT_EQ(file.require_u32("n"), 4U);
  EXPECT_NE(file.find_tensor("a"), nullptr);
}

TEST_F(GgufFileTest, ViewsOutliveAMove) {
  auto builder = every_scalar();
  builder.add_f32("a", {1}, {1});
  auto file = reopen(builder);
  const auto *data = file.find_tensor("a")->data.data();
  const GgufFile moved(std::move(file));
  ASSERT_NE(moved.find_tensor("a"), nullptr);
  EXPECT_EQ(moved.find_tensor("a")->data.data(), data);
  EXPECT_THAT(moved.get_u32("u8"), Optional(200U));
}

TEST_F(GgufFileTest, TheDefaultModelOpens) {
  const std::filesystem::path path = PATCHBAY_SOURCE_DIR "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(path))
    GTEST_SKIP() << path << " is not there; scripts/setup gets it";
  const auto file = GgufFile::open(path);
  EXPECT_EQ(file.require_string("general.architecture"), "llama");
  EXPECT_EQ(file.require_u32("llama.block_count"), 30U);
  EXPECT_EQ(file.require_u32("llama.embedding_length"), 576U);
  EXPECT_EQ(file.get_strings("tokenizer.ggml.tokens").value().size(), 49152U);
  const auto *q = file.find_tensor("blk.0.attn_q.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_THAT(q->ne, ElementsAre(576, 576, 1, 1));
  EXPECT_EQ(q->data.size(), ggml_row_size(q->type, 576) * 576);
}

TEST(FormatShape, LeavesOutTrailingOnes) {
  const std::array<int64_t, 4> matrix{576, 1536, 1, 1};
  EXPECT_EQ(format_shape(matrix), "[576, 1536]");
  EXPECT_EQ(format_shape(matrix, 3), "[576, 1536, 1]");
  EXPECT_EQ(format_shape(matrix, 9), "[576, 1536, 1, 1]");
  EXPECT_EQ(format_shape(std::array<int64_t, 4>{1, 1, 1, 1}), "[1]");
  EXPECT_EQ(format_shape(std::array<int64_t, 4>{1, 1, 5, 1}), "[1, 1, 5]");
}

}  // namespace
}  // namespace patchbay
