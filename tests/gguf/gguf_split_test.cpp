#include "gguf/gguf_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/gguf_file.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SplitNames, ArePrefixNumberAndCount) {
  const auto name = parse_split_name("a-b.Q4_0-00002-of-00003.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->prefix, "a-b.Q4_0");
  EXPECT_EQ(name->no, 2U);
  EXPECT_EQ(name->count, 3U);
  EXPECT_EQ(format_split_name(*name), "a-b.Q4_0-00002-of-00003.gguf");
}

TEST(SplitNames, OfOtherPatternsAreNone) {
  for (const auto *name :
       {"", ".gguf", "m.gguf", "m-00001-of-00003", "m-0001-of-0003.gguf", "m-00004-of-00003.gguf",
        "m-00000-of-00003.gguf", "-00001-of-00003.gguf", "m00001-of-00003.gguf",
        "m-00001-to-00003.gguf", "m-00001-of-0000x.gguf", "m--0001-of-00003.gguf"}) {
    EXPECT_FALSE(parse_split_name(name).has_value()) << name;
  }
}

/// A model of three shards with one tensor each, of which a test spoils one.
class SplitModelTest : public testing::Test {
 protected:
  SplitModelTest() {
    for (uint16_t no = 0; no < 3; no++) shard(no, no, 3, "t" + std::to_string(no));
  }

  void shard(uint32_t i_file, uint16_t no, uint16_t count, const std::string &tensor,
             int32_t n_tensors = 3) const {
    GgufBuilder builder;
    builder.set("split.no", no).set("split.count", count).set("split.tensors.count", n_tensors);
    builder.set("general.name", "shard " + std::to_string(no));
    builder.add_f32(tensor, {1}, {static_cast<float>(no)});
    builder.save(file(i_file));
  }

  [[nodiscard]] std::filesystem::path file(uint32_t i_file) const {
    return dir_.path() / format_split_name({.prefix = "m", .no = i_file + 1, .count = 3});
  }

  [[nodiscard]] std::string failure() const {
    return load_failure([&] { (void)GgufFile::open(file(0)); });
  }

  TempDir dir_;
};

TEST_F(SplitModelTest, OpensAsOneFile) {
  const auto model = GgufFile::open(file(0));
  EXPECT_EQ(model.shards().size(), 3U);
  EXPECT_EQ(model.path(), file(0).string());
  ASSERT_EQ(model.tensors().size(), 3U);
  for (size_t no = 0; no < 3; no++) {
    const auto *tensor = model.find_tensor("t" + std::to_string(no));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->i_shard, no);
    EXPECT_EQ(*reinterpret_cast<const float *>(tensor->data.data()), static_cast<float>(no));
  }
  EXPECT_EQ(model.require_string("general.name"), "shard 0");
}

TEST_F(SplitModelTest, ALaterShardSaysWhichFileToOpen) {
  EXPECT_THAT(load_failure([&] { (void)GgufFile::open(file(1)); }),
              AllOf(HasSubstr("m-00002-of-00003.gguf: is shard 2 of a split model"),
                    HasSubstr("open m-00001-of-00003.gguf")));
}

TEST_F(SplitModelTest, AMissingShardIsNamed) {
  std::filesystem::remove(file(2));
  EXPECT_THAT(failure(), HasSubstr("m-00003-of-00003.gguf: is missing"));
  try {
    (void)GgufFile::open(file(0));
  } catch (const LoadError &error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
  }
}

TEST_F(SplitModelTest, ADamagedShardIsNamed) {
  dir_.write(file(1).filename().string(), "GGUF");
  EXPECT_THAT(failure(), AllOf(HasSubstr("m-00002-of-00003.gguf"), HasSubstr("truncated")));
}

TEST_F(SplitModelTest, AShardOfAnotherPlaceOrModelIsRefused) {
  shard(1, 2, 3, "t1");
  EXPECT_THAT(failure(),
              AllOf(HasSubstr("m-00002-of-00003.gguf: is not the shard that its name says"),
                    HasSubstr("want split.no 1 of split.count 3, found 2 of 3")));
  shard(1, 1, 4, "t1");
  EXPECT_THAT(failure(), HasSubstr("found 1 of 4"));
  GgufBuilder().add_f32("t1", {1}, {1}).save(file(1));
  EXPECT_THAT(failure(), HasSubstr("found 0 of 1"));
}

TEST_F(SplitModelTest, ATensorInTwoShardsIsRefused) {
  shard(2, 2, 3, "t0");
  EXPECT_THAT(failure(), AllOf(HasSubstr("m-00003-of-00003.gguf: t0 is also in"),
                               HasSubstr("m-00001-of-00003.gguf")));
}

TEST_F(SplitModelTest, TheTotalNumberOfTensorsMustMatch) {
  shard(0, 0, 3, "t0", 4);
  EXPECT_THAT(failure(),
              HasSubstr("split.tensors.count is not the number of tensors in all shards: "
                        "want 3, found 4"));
  GgufBuilder()
      .set("split.no", uint16_t{0})
      .set("split.count", uint16_t{3})
      .add_f32("t0", {1}, {1})
      .save(file(0));
  EXPECT_THAT(failure(), HasSubstr("found no such key"));
}

TEST_F(SplitModelTest, ARenamedFirstShardIsRefused) {
  std::filesystem::copy_file(file(0), dir_.path() / "renamed.gguf");
  EXPECT_THAT(load_failure([&] { (void)GgufFile::open(dir_.path() / "renamed.gguf"); }),
              HasSubstr("want NAME-00001-of-00003.gguf, found renamed.gguf"));
}

TEST_F(SplitModelTest, ACountOfOneOrNoneIsAWholeModel) {
  for (const uint16_t count : {uint16_t{0}, uint16_t{1}}) {
    const auto path = dir_.path() / "whole.gguf";
    GgufBuilder().set("split.count", count).add_f32("x", {1}, {1}).save(path);
    EXPECT_EQ(GgufFile::open(path).shards().size(), 1U);
  }
}

TEST_F(SplitModelTest, AnAbsurdCountIsRefused) {
  const auto path = dir_.path() / "absurd.gguf";
  GgufBuilder().set("split.count", UINT64_MAX).save(path);
  EXPECT_THAT(load_failure([&] { (void)GgufFile::open(path); }),
              HasSubstr("split.count has a value out of range"));
}

}  // namespace
}  // namespace patchbay
