#include "gguf/gguf_head.h"

#include <gmock/gmock.h>

#include "base/temp_dir.h"
#include "gguf/byte_reader.h"
#include "gguf/gguf_builder.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

GgufFile written(const TempDir &dir, const GgufHead &head, std::string_view data) {
  const auto bytes = head.bytes();
  return GgufFile::open(dir.write("out.gguf", std::string(as_text(bytes)).append(data)));
}

TEST(GgufHead, CopiesEntriesOfEveryKindByteByByte) {
  const TempDir dir;
  GgufBuilder builder;
  builder.set("a.u8", uint8_t{7})
      .set("a.i64", int64_t{-7})
      .set("a.f64", 0.25)
      .set("a.bool", true)
      .set("a.text", "caf\xe9")
      .set_array("a.texts", std::vector<std::string>{"x", "", "yz"})
      .set_array("a.numbers", std::vector<int16_t>{1, -2, 3})
      .set_array("a.none", std::vector<float>{});
  const auto before = GgufFile::open(dir.write("in.gguf", builder.bytes()));
  GgufHead head;
  for (const auto &entry : before.entries()) head.set(entry);
  const auto after = written(dir, head, "");
  ASSERT_EQ(after.entries().size(), before.entries().size());
  for (size_t i = 0; i < after.entries().size(); ++i) {
    const auto &one = before.entries()[i];
    const auto &other = after.entries()[i];
    EXPECT_EQ(one.key, other.key);
    EXPECT_EQ(one.type, other.type);
    EXPECT_EQ(one.item_type, other.item_type);
    EXPECT_EQ(one.n_items, other.n_items);
    EXPECT_TRUE(std::ranges::equal(one.bytes, other.bytes)) << one.key;
  }
}

TEST(GgufHead, ANewValueKeepsThePlaceOfTheOldOne) {
  const TempDir dir;
  GgufHead head;
  head.set_string("a", "old");
  head.set_u32("b", 5);
  head.set_strings("a", std::vector<std::string>{"new", "newer"});
  head.set_floats("c", std::vector<float>{0.5F});
  const auto file = written(dir, head, "");
  EXPECT_EQ(file.entries().front().key, "a");
  EXPECT_THAT(*file.get_strings("a"), ElementsAre("new", "newer"));
  EXPECT_EQ(file.get_u32("b"), 5U);
  EXPECT_THAT(*file.get_floats("c"), ElementsAre(0.5F));
}

TEST(GgufHead, TextsAreUtf8) {
  const TempDir dir;
  GgufHead head;
  head.set_string("a", "x\xff\xfe y");
  head.set_strings("b", std::vector<std::string>{"\xc3\xa9", "\x80"});
  const auto file = written(dir, head, "");
  EXPECT_EQ(file.get_string("a"), "x\uFFFD\uFFFD y");
  EXPECT_THAT(*file.get_strings("b"), ElementsAre("\u00e9", "\uFFFD"));
}

TEST(GgufHead, LaysTensorsOutAtTheAlignment) {
  for (const uint32_t alignment : {32U, 64U}) {
    const TempDir dir;
    GgufBuilder builder;
    builder.alignment(alignment);
    const auto before = GgufFile::open(dir.write("in.gguf", builder.bytes()));
    GgufHead head;
    head.set(*before.find_entry("general.alignment"));
    head.add_tensor("one", GGML_TYPE_F32, 1, {3, 1, 1, 1});
    head.add_tensor("two", GGML_TYPE_Q8_0, 2, {32, 2, 1, 1});
    EXPECT_EQ(head.alignment(), alignment);
    std::string data = raw_bytes(1.0F) + raw_bytes(2.0F) + raw_bytes(3.0F);
    data.resize(alignment);
    data += std::string(68, 'x');
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    const auto file = written(dir, head, data);
    EXPECT_EQ(head.file_bytes(), file.shards().front().bytes().size());
    EXPECT_EQ(load_little_endian<float>(file.find_tensor("one")->data.subspan(8)), 3.0F);
    EXPECT_EQ(as_text(file.find_tensor("two")->data), std::string(68, 'x'));
  }
}

}  // namespace
}  // namespace patchbay
