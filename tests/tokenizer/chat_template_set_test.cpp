#include "tokenizer/chat_template_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/temp_dir.h"
#include "../gguf/gguf_builder.h"
#include "base/error.h"

namespace patchbay {
namespace {

using ::testing::HasSubstr;

ChatTemplateSet read(const GgufBuilder &builder) {
  const TempDir dir;
  builder.save(dir.path() / "model.gguf");
  return read_chat_templates(GgufFile::open(dir.path() / "model.gguf"));
}

TEST(ChatTemplateSet, FileWithoutATemplateHasNone) {
  const auto set = read(GgufBuilder());
  EXPECT_TRUE(set.sources.empty());
  EXPECT_EQ(set.choose(true), nullptr);
}

TEST(ChatTemplateSet, NamedTemplatesStandBesideTheDefault) {
  GgufBuilder builder;
  builder.set("tokenizer.chat_template", "D")
      .set_array("tokenizer.chat_templates", std::vector<std::string>{"tool_use"})
      .set("tokenizer.chat_template.tool_use", "T")
      .set("tokenizer.chat_template.rag", "R");
  const auto set = read(builder);
  ASSERT_EQ(set.sources.size(), 3U);
  EXPECT_EQ(set.find("default")->text, "D");
  EXPECT_EQ(set.find("rag")->item, "tokenizer.chat_template.rag");
  EXPECT_EQ(set.find("nope"), nullptr);
}

TEST(ChatTemplateSet, RequestWithToolsGetsTheTemplateForThem) {
  GgufBuilder builder;
  builder.set("tokenizer.chat_template", "D").set("tokenizer.chat_template.tool_use", "T");
  EXPECT_EQ(read(builder).choose(true)->text, "T");
  EXPECT_EQ(read(builder).choose(false)->text, "D");
  GgufBuilder plain;
  plain.set("tokenizer.chat_template", "D");
  EXPECT_EQ(read(plain).choose(true)->text, "D");
}

TEST(ChatTemplateSet, WhatIsNotAsItShouldBeIsRefused) {
  GgufBuilder number;
  number.set("tokenizer.chat_template", uint32_t{1});
  EXPECT_THROW((void)read(number), LoadError);
  GgufBuilder listed;
  listed.set_array("tokenizer.chat_templates", std::vector<std::string>{"rag"});
  try {
    (void)read(listed);
    FAIL();
  } catch (const LoadError &error) {
    EXPECT_THAT(error.what(), HasSubstr("lists a template that is missing: found rag"));
  }
}

}  // namespace
}  // namespace patchbay
