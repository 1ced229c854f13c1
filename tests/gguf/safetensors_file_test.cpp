#include "gguf/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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
using testing::Pair;

std::string image_of(const std::string &header, const std::string &data = "") {
  return raw_bytes<uint64_t>(header.size()) + header + data;
}

/// A header entry with these three fields.
std::string entry(const std::string &name, const std::string &dtype, const std::string &shape,
                  const std::string &offsets) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" + shape +
         R"(],"data_offsets":[)" + offsets + "]}";
}

class SafetensorsFileTest : public testing::Test {
 protected:
  [[nodiscard]] SafetensorsFile reopen(const std::string &image) const {
    return SafetensorsFile::open(dir_.write("a.safetensors", image));
  }
  [[nodiscard]] std::string failure_of(const std::string &image) const {
    const auto path = dir_.write("a.safetensors", image);
    return load_failure([&] { (void)SafetensorsFile::open(path); });
  }
  [[nodiscard]] std::string failure_of_header(const std::string &header,
                                              const std::string &data = "") const {
    return failure_of(image_of(header, data));
  }
  [[nodiscard]] bool opens(const std::string &image) const {
    try {
      (void)reopen(image);
      return true;
    } catch (const LoadError &) {
      return false;
    }
  }

  TempDir dir_;
};

std::string small_image() {
  return image_of(R"({"__metadata__":{"format":"pt","k":"v"},)" + entry("y", "F32", "2", "6,14") +
                      "," + entry("x", "BF16", "3,1", "0,6") + "," +
                      entry("e", "F16", "0,4", "6,6") + "," + entry("s", "I8", "", "14,15") + "}  ",
                  "0123456789abcde");
}

TEST_F(SafetensorsFileTest, TensorsReadBackSortedByName) {
  const auto file = reopen(small_image());
  ASSERT_EQ(file.tensors().size(), 4U);
  const auto &e = file.tensors()[0];
  const auto &scalar = file.tensors()[1];
  const auto &x = file.tensors()[2];
  const auto &y = file.tensors()[3];
  EXPECT_EQ(e.name, "e");
  EXPECT_EQ(e.n_elements(), 0);
  EXPECT_TRUE(e.data.empty());
  EXPECT_EQ(scalar.name, "s");
  EXPECT_THAT(scalar.shape, IsEmpty());
  EXPECT_EQ(scalar.n_elements(), 1);
  EXPECT_EQ(x.name, "x");
  EXPECT_EQ(x.dtype, "BF16");
  EXPECT_THAT(x.shape, ElementsAre(3, 1));
  EXPECT_EQ(x.n_elements(), 3);
  EXPECT_EQ(as_text(x.data), "012345");
  EXPECT_EQ(y.name, "y");
  EXPECT_EQ(as_text(y.data), "6789abcd");
  EXPECT_THAT(file.metadata(), ElementsAre(Pair("format", "pt"), Pair("k", "v")));
}

TEST_F(SafetensorsFileTest, AnEmptyHeaderIsSound) {
  const auto file = reopen(image_of("{}"));
  EXPECT_TRUE(file.tensors().empty());
  EXPECT_THAT(file.metadata(), IsEmpty());
}

TEST_F(SafetensorsFileTest, EveryDtypeHasItsSize) {
  const std::vector<std::pair<std::string, size_t>> sizes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  for (const auto &[dtype, size] : sizes) {
    const auto end = std::to_string(3 * size);
    const auto file = reopen(
        image_of("{" + entry("t", dtype, "3", "0," + end) + "}", std::string(3 * size, 'd')));
    EXPECT_EQ(file.tensors()[0].data.size(), 3 * size) << dtype;
  }
  EXPECT_THAT(failure_of_header("{" + entry("t", "F4", "2", "0,1") + "}", "d"),
              HasSubstr("t has a dtype that is not supported: found F4"));
}

TEST_F(SafetensorsFileTest, TruncatedAnywhereIsRefused) {
  const std::string image = small_image();
  ASSERT_TRUE(opens(image));
  EXPECT_THAT(failure_of(std::string()), HasSubstr("is empty"));
  for (size_t n = 1; n < image.size(); n++) {
    ASSERT_THAT(failure_of(image.substr(0, n)), HasSubstr("truncated")) << "cut at byte " << n;
  }
}

TEST_F(SafetensorsFileTest, AnyChangedByteIsReadOrRefused) {
  const std::string image = small_image();
  size_t n_opened = 0;
  size_t n_refused = 0;
  for (size_t i = 0; i < image.size(); i++) {
    for (const int value :
         {0x00, 0x22, 0x2c, 0x2d, 0x30, 0x39, 0x5b, 0x5d, 0x7b, 0x7d, 0x80, 0xff}) {
      std::string changed = image;
      changed[i] = static_cast<char>(value);
      (opens(changed) ? n_opened : n_refused)++;
    }
  }
  EXPECT_GT(n_opened, 0U);
  EXPECT_GT(n_refused, image.size());
}

TEST_F(SafetensorsFileTest, OtherKindsOfFilesAreNamed) {
  EXPECT_THAT(failure_of(GgufBuilder().bytes()),
              HasSubstr("is not a safetensors file: it looks like a GGUF file"));
  EXPECT_THAT(failure_of("PK\x03\x04 and so on"), HasSubstr("zip archive"));
  EXPECT_THAT(failure_of("\x80\x02}q\x01 and so on"), HasSubstr("Python pickle"));
  EXPECT_THAT(failure_of("some text and more"), HasSubstr("a text file"));
  EXPECT_THAT(load_failure([&] { (void)SafetensorsFile::open(dir_.path()); }),
              HasSubstr("is a directory"));
}

TEST_F(SafetensorsFileTest, AHeaderLongerThanTheFileOrTheLimitIsRefused) {
  EXPECT_THAT(failure_of(raw_bytes<uint64_t>(1000) + "{}"),
              HasSubstr("header is truncated: want 1000 bytes, found 2"));
  EXPECT_THAT(failure_of(raw_bytes<uint64_t>(100'000'001) + "{}"), HasSubstr("not a safetensors"));
  EXPECT_THAT(failure_of(raw_bytes(UINT64_MAX) + "{}"), HasSubstr("not a safetensors"));
}

TEST_F(SafetensorsFileTest, BadJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(failure_of_header("{\"a\":"), HasSubstr("header is not valid JSON at byte"));
  EXPECT_THAT(failure_of_header("{} x"), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure_of_header("{}{}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure_of_header(std::string("{}\0", 3)), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure_of_header("{\"\xff\":1}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure_of_header("{" + entry("t", "U8", "1e999", "0,1") + "}", "d"),
              HasSubstr("not valid JSON"));
}

TEST_F(SafetensorsFileTest, DeepNestingIsRefused) {
  EXPECT_THAT(failure_of_header(R"({"t":{"shape":)" + std::string(1'000'000, '[')),
              HasSubstr("t has an unsound entry"));
  std::string objects = "{";
  for (int i = 0; i < 100'000; i++) objects += R"("a":{)";
  EXPECT_THAT(failure_of_header(objects), HasSubstr("unsound entry"));
}

TEST_F(SafetensorsFileTest, ValuesThatDoNotBelongThereAreRefused) {
  const std::string unsound = "has an unsound entry in the safetensors header";
  for (const auto *header :
       {R"({"t":null})", R"({"t":1})", R"({"t":"x"})", R"({"t":[1]})", R"({"t":{}})",
        R"({"t":{"dtype":1}})", R"({"t":{"dtype":"U8","shape":"1"}})",
        R"({"t":{"dtype":"U8","shape":[1]}})", R"({"t":{"dtype":"U8","extra":[1]}})",
        R"({"t":{"dtype":"U8","dtype":"U8"}})", R"({"__metadata__":{"a":1}})",
        R"({"__metadata__":{"a":{}}})", R"({"__metadata__":{"a":"1","a":"2"}})",
        R"({"__metadata__":{},"__metadata__":{}})", R"({"__metadata__":[]})"}) {
    EXPECT_THAT(failure_of_header(header), HasSubstr(unsound)) << header;
  }
  for (const auto *n : {"1.0", "-1", "true", "\"1\"", "null", "[1]", "18446744073709551615",
                        "18446744073709551616"}) {
    EXPECT_THAT(failure_of_header("{" + entry("t", "U8", n, "0,1") + "}", "d"), HasSubstr(unsound))
        << n;
  }
  for (const auto *offsets : {"", "0", "0,1,2", "0,1.0", "-1,1", "true,1"}) {
    EXPECT_THAT(failure_of_header("{" + entry("t", "U8", "1", offsets) + "}", "d"),
                HasSubstr(unsound))
        << offsets;
  }
}

TEST_F(SafetensorsFileTest, DuplicateNamesAreRefused) {
  EXPECT_THAT(
      failure_of_header(
          "{" + entry("t", "U8", "1", "0,1") + "," + entry("t", "U8", "1", "1,2") + "}", "de"),
      HasSubstr("a.safetensors: t is there twice"));
}

TEST_F(SafetensorsFileTest, OffsetsMatchShapeAndDtype) {
  EXPECT_THAT(failure_of_header("{" + entry("t", "F32", "2", "0,7") + "}", "1234567"),
              HasSubstr("t has data_offsets that do not fit its shape and dtype: want 8 bytes, "
                        "found 0 to 7"));
  EXPECT_THAT(failure_of_header("{" + entry("t", "U8", "0", "1,0") + "}", "1"),
              HasSubstr("do not fit"));
  EXPECT_THAT(failure_of_header("{" + entry("t", "U8", "4294967296,4294967296", "0,0") + "}"),
              HasSubstr("t has a shape larger than any file"));
  EXPECT_THAT(failure_of_header("{" + entry("t", "F64", "9223372036854775807", "0,8") + "}"),
              HasSubstr("larger than any file"));
}

TEST_F(SafetensorsFileTest, TensorsCoverTheDataOnce) {
  const auto two = [](const std::string &second) {
    return "{" + entry("a", "U8", "2", "0,2") + "," + entry("b", "U8", "2", second) + "}";
  };
  EXPECT_TRUE(opens(image_of(two("2,4"), "1234")));
  EXPECT_THAT(failure_of_header(two("1,3"), "123"), HasSubstr("b has data that overlaps"));
  EXPECT_THAT(failure_of_header(two("3,5"), "12345"), HasSubstr("b leaves a hole before its data"));
  EXPECT_THAT(failure_of_header(two("2,4"), "12345"),
              HasSubstr("has data of no tensor at its end"));
  EXPECT_THAT(failure_of_header(two("2,4"), "123"),
              HasSubstr("is truncated: want 4 bytes of data"));
  EXPECT_THAT(failure_of_header("{}", "1"), HasSubstr("data of no tensor"));
}

}  // namespace
}  // namespace patchbay
