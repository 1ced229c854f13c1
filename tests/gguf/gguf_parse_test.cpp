#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/gguf_file.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GgufDamageTest : public testing::Test {
 protected:
  [[nodiscard]] std::string failure_of(const std::string &image) const {
    const auto path = dir_.write("m.gguf", image);
    return load_failure([&] { (void)GgufFile::open(path); });
  }
  [[nodiscard]] std::string failure_of(const GgufBuilder &builder) const {
    return failure_of(builder.bytes());
  }

  /// True when it opens, false when a LoadError says why not; anything else fails the test.
  [[nodiscard]] bool opens(const std::string &image) const {
    const auto path = dir_.write("m.gguf", image);
    try {
      (void)GgufFile::open(path);
      return true;
    } catch (const LoadError &) {
      return false;
    }
  }

  TempDir dir_;
};

/// Small, with each kind of value and two tensors of which the second ends the file.
std::string small_image() {
  GgufBuilder builder;
  builder.alignment(8).set("s", "text").set("b", true).set("f", 1.0F);
  builder.set_array("i", std::vector<int16_t>{1, 2});
  builder.set_array("t", std::vector<std::string>{"ab", "c"});
  builder.set_raw_array("n", GgufType::array, 1,
                        raw_bytes(static_cast<uint32_t>(GgufType::boolean)) +
                            raw_bytes<uint64_t>(2) + std::string("\1\0", 2));
  builder.add_tensor("x", GGML_TYPE_Q4_0, {32, 2}, std::string(36, 'q'));
  builder.add_f32("y", {2}, {1, 2});
  return builder.bytes();
}

TEST_F(GgufDamageTest, TruncatedAnywhereIsRefused) {
  const std::string image = small_image();
  ASSERT_TRUE(opens(image));
  EXPECT_THAT(failure_of(std::string()), HasSubstr("m.gguf: is empty"));
  for (size_t n = 1; n < image.size(); n++) {
    ASSERT_THAT(failure_of(image.substr(0, n)), HasSubstr("truncated")) << "cut at byte " << n;
  }
}

TEST_F(GgufDamageTest, AnyChangedByteIsReadOrRefused) {
  const std::string image = small_image();
  size_t n_opened = 0;
  size_t n_refused = 0;
  for (size_t i = 0; i < image.size(); i++) {
    for (const int value : {0x00, 0x01, 0x07, 0x08, 0x09, 0x0c, 0x0d, 0x7f, 0x80, 0xff}) {
      std::string changed = image;
      changed[i] = static_cast<char>(value);
      (opens(changed) ? n_opened : n_refused)++;
    }
  }
  EXPECT_GT(n_opened, 0U);
  EXPECT_GT(n_refused, image.size());
}

TEST_F(GgufDamageTest, WhateverOpensAfterAChangeCanBeRead) {
  const std::string image = small_image();
  for (size_t i = 0; i < image.size(); i++) {
    std::string changed = image;
    changed[i] = static_cast<char>(changed[i] ^ 0x04);
    if (!opens(changed)) continue;
    const auto file = GgufFile::open(dir_.path() / "m.gguf");
    unsigned sum = 0;
    for (const auto &entry : file.entries()) {
      for (const std::byte b : entry.bytes) sum += std::to_integer<unsigned>(b);
      if (entry.item_type == GgufType::string && entry.type == GgufType::array) {
        EXPECT_EQ(file.get_strings(entry.key)->size(), entry.n_items);
      }
    }
    for (const auto &tensor : file.tensors()) {
      for (const std::byte b : tensor.data) sum += std::to_integer<unsigned>(b);
    }
    EXPECT_GT(sum, 0U);
  }
}

TEST_F(GgufDamageTest, PaddingAfterTheLastTensorMayBeThereOrNot) {
  EXPECT_TRUE(opens(small_image()));
  EXPECT_TRUE(opens(small_image() + std::string(24, '\0')));
  EXPECT_TRUE(opens(GgufBuilder().set("only", "metadata").bytes()));
}

TEST_F(GgufDamageTest, OtherKindsOfFilesAreNamed) {
  EXPECT_THAT(failure_of(raw_bytes<uint64_t>(2) + "{}"),
              HasSubstr("is not a GGUF file: it looks like a safetensors file"));
  EXPECT_THAT(failure_of("PK\x03\x04 and so on"), HasSubstr("zip archive"));
  EXPECT_THAT(failure_of("\x80\x02}q."), HasSubstr("Python pickle"));
  EXPECT_THAT(failure_of("hello world\n"), HasSubstr("is not a GGUF file: it looks like a text"));
  EXPECT_THAT(failure_of(std::string("\0\0\0\0\0", 5)), HasSubstr("unknown kind"));
  EXPECT_THAT(load_failure([&] { (void)GgufFile::open(dir_.path()); }),
              HasSubstr("is a directory"));
}

TEST_F(GgufDamageTest, OtherVersionsAreRefusedByNumber) {
  EXPECT_THAT(failure_of(GgufBuilder(1)), HasSubstr("want 2 or 3, found 1"));
  EXPECT_THAT(failure_of(GgufBuilder(4)), HasSubstr("want 2 or 3, found 4"));
  EXPECT_THAT(failure_of(GgufBuilder(0)), HasSubstr("found 0"));
  EXPECT_THAT(failure_of(GgufBuilder(0x03000000)), HasSubstr("big-endian"));
}

TEST_F(GgufDamageTest, CountsThatCannotFitAreRefusedBeforeAnythingIsAllocated) {
  const auto header = [](uint64_t n_tensors, uint64_t n_entries) {
    return "GGUF" + raw_bytes<uint32_t>(3) + raw_bytes(n_tensors) + raw_bytes(n_entries);
  };
  const std::string rest(200, '\0');
  for (const uint64_t n : {uint64_t{100}, uint64_t{1} << 32, uint64_t{1} << 61, UINT64_MAX}) {
    EXPECT_THAT(failure_of(header(n, 0) + rest), HasSubstr("tensor list has a count"));
    EXPECT_THAT(failure_of(header(0, n) + rest), HasSubstr("metadata has a count"));
    for (const auto type :
         {GgufType::u8, GgufType::u16, GgufType::f64, GgufType::string, GgufType::array}) {
      GgufBuilder builder;
      builder.set_raw_array("a", type, n, "x");
      EXPECT_THAT(failure_of(builder), AllOf(HasSubstr("a has a count"), HasSubstr("truncated")));
    }
  }
  EXPECT_THAT(failure_of(GgufBuilder().set_raw("s", GgufType::string, raw_bytes(UINT64_MAX))),
              HasSubstr("s is truncated"));
}

TEST_F(GgufDamageTest, UnsoundKeysAreRefused) {
  EXPECT_THAT(failure_of(GgufBuilder().set("", 1U)), HasSubstr("key of unsound length"));
  EXPECT_TRUE(opens(GgufBuilder().set(std::string(65535, 'k'), 1U).bytes()));
  EXPECT_THAT(failure_of(GgufBuilder().set(std::string(65536, 'k'), 1U)),
              HasSubstr("want 1 to 65535 bytes, found 65536"));
  EXPECT_THAT(failure_of(GgufBuilder().set("a\nb", 1U)),
              HasSubstr("is not printable ASCII: found a\\x0ab"));
  EXPECT_THAT(failure_of(GgufBuilder().set("k\u00e9y", 1U)), HasSubstr("not printable ASCII"));
  EXPECT_THAT(failure_of(GgufBuilder().set("k", 1U).set("other", 1U).set("k", 2U)),
              HasSubstr("m.gguf: k is there twice"));
}

TEST_F(GgufDamageTest, UnsoundValuesAreRefused) {
  EXPECT_THAT(failure_of(GgufBuilder().set_raw("k", static_cast<GgufType>(13), "12345678")),
              HasSubstr("k has an unknown value type: want 0 to 12, found 13"));
  EXPECT_THAT(failure_of(GgufBuilder().set_raw_array("k", static_cast<GgufType>(99), 1, "1")),
              HasSubstr("unknown value type"));
  EXPECT_THAT(failure_of(GgufBuilder().set_raw("k", GgufType::boolean, "\2")),
              HasSubstr("k has an unsound bool: want 0 or 1, found 2"));
  EXPECT_THAT(failure_of(GgufBuilder().set_raw_array("k", GgufType::boolean, 2, "\1\xff")),
              HasSubstr("unsound bool"));
}

/// `depth` arrays around one byte.
GgufBuilder nested(int depth) {
  std::string payload =
      raw_bytes(static_cast<uint32_t>(GgufType::u8)) + raw_bytes<uint64_t>(1) + "x";
  for (int i = 1; i < depth; i++) {
    payload = raw_bytes(static_cast<uint32_t>(GgufType::array)) + raw_bytes<uint64_t>(1) + payload;
  }
  GgufBuilder builder;
  builder.set_raw("deep", GgufType::array, payload);
  return builder;
}

TEST_F(GgufDamageTest, ArraysNestOnlySoDeep) {
  EXPECT_TRUE(opens(nested(8).bytes()));
  EXPECT_THAT(failure_of(nested(9)), HasSubstr("deep has arrays that are nested too deeply"));
  EXPECT_THAT(failure_of(nested(20'000)), HasSubstr("nested too deeply"));
}

TEST_F(GgufDamageTest, UnsoundAlignmentsAreRefused) {
  for (const uint32_t alignment : {0U, 1U, 4U, 24U, 33U}) {
    EXPECT_THAT(failure_of(GgufBuilder().set("general.alignment", alignment)),
                HasSubstr("want a power of two, at least 8, found " + std::to_string(alignment)));
  }
  EXPECT_THAT(failure_of(GgufBuilder().set("general.alignment", "32")), HasSubstr("wrong type"));
  EXPECT_THAT(failure_of(GgufBuilder().set("general.alignment", int64_t{-8})),
              HasSubstr("out of range"));
  // The data would begin far behind the end of this file.
  EXPECT_THAT(
      failure_of(GgufBuilder().set("general.alignment", 0x80000000U).add_f32("x", {1}, {1})),
      HasSubstr("truncated"));
}

TEST_F(GgufDamageTest, UnsoundTensorNamesAreRefused) {
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("", {1}, {1})),
              HasSubstr("tensor 0 has a name of unsound length"));
  EXPECT_TRUE(opens(GgufBuilder().add_f32(std::string(63, 'n'), {1}, {1}).bytes()));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32(std::string(64, 'n'), {1}, {1})),
              HasSubstr("want 1 to 63 bytes, found 64"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32(std::string_view("a\0b", 3), {1}, {1})),
              HasSubstr("control characters in its name: found a\\x00b"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {1}, {1}).add_f32("x", {1}, {2})),
              HasSubstr("m.gguf: x is there twice"));
}

TEST_F(GgufDamageTest, UnsoundShapesAreRefused) {
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {}, {1})),
              HasSubstr("x has an unsound number of dimensions: want 1 to 4, found 0"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {1, 1, 1, 1, 1}, {1})), HasSubstr("found 5"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {1, 0}, {1})),
              HasSubstr("x has an unsound size in dimension 1"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {-1}, {1})), HasSubstr("dimension 0"));
  const int64_t large = int64_t{1} << 32;
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {large, large}, {1})),
              HasSubstr("dimension 1"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {INT64_MAX, 1}, {1})),
              HasSubstr("x is larger than any file"));
  EXPECT_THAT(failure_of(GgufBuilder().add_f32("x", {large / 2, large / 2}, {1})),
              HasSubstr("larger than any file"));
}

TEST_F(GgufDamageTest, RowsAreWholeBlocks) {
  EXPECT_THAT(failure_of(GgufBuilder().add_tensor("x", GGML_TYPE_Q4_1, {48}, std::string(40, 'q'))),
              HasSubstr("x has rows that are no whole number of blocks: want a multiple of 32 for "
                        "q4_1, found 48"));
  EXPECT_THAT(
      failure_of(GgufBuilder().add_tensor("x", GGML_TYPE_Q4_K, {32, 8}, std::string(144, 'q'))),
      HasSubstr("want a multiple of 256"));
}

TEST_F(GgufDamageTest, UnknownTensorTypesAreRefusedByNumberOrName) {
  const auto failure_of_type = [&](uint32_t type) {
    return failure_of(GgufBuilder().add_raw_tensor("x", type, {32}, std::string(128, 'd'), 0));
  };
  for (const uint32_t type : {4U, 5U, 31U, 32U, 33U, 36U, 37U, 38U, 43U, 1000U, UINT32_MAX}) {
    EXPECT_THAT(
        failure_of_type(type),
        HasSubstr("x has a tensor type that is not supported: found " + std::to_string(type)));
  }
  EXPECT_THAT(failure_of_type(142), HasSubstr("found PQ2_0 (142)"));
  EXPECT_THAT(failure_of_type(143), HasSubstr("found PTQ1_0 (143)"));
}

TEST_F(GgufDamageTest, DataLiesAlignedInTheFileAndApart) {
  const std::string data(64, 'd');
  const auto with_offset = [&](uint64_t offset) {
    GgufBuilder builder;
    return builder.add_raw_tensor("x", GGML_TYPE_F32, {16}, data, 0)
        .add_raw_tensor("y", GGML_TYPE_F32, {16}, data, offset);
  };
  EXPECT_TRUE(opens(with_offset(64).bytes()));
  EXPECT_THAT(failure_of(with_offset(65)),
              HasSubstr("y has misaligned data: want an offset that is "
                        "a multiple of 32, found 65"));
  EXPECT_THAT(failure_of(with_offset(96)), HasSubstr("y has data past the end of the file"));
  EXPECT_THAT(failure_of(with_offset(uint64_t{1} << 40)), HasSubstr("past the end"));
  EXPECT_THAT(failure_of(with_offset(UINT64_MAX - 31)), HasSubstr("past the end"));
  EXPECT_THAT(failure_of(with_offset(32)), HasSubstr("y shares bytes of the file with x"));
  EXPECT_THAT(failure_of(with_offset(0)), HasSubstr("shares bytes"));
}

}  // namespace
}  // namespace patchbay
