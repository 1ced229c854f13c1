#include "engine/adapter_chat_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../base/temp_dir.h"
#include "base/error.h"

namespace patchbay {
namespace {

using ::testing::HasSubstr;

class AdapterChatTemplates : public ::testing::Test {
 protected:
  AdapterChatTemplates() { dir_.write("adapter_config.json", "{}"); }

  void write_config(std::string_view json) { dir_.write("tokenizer_config.json", json); }
  [[nodiscard]] ChatTemplateSet read() const { return read_adapter_chat_templates(dir_.path()); }
  [[nodiscard]] std::string refusal() const {
    try {
      (void)read();
    } catch (const LoadError &error) {
      return error.what();
    }
    return {};
  }

  TempDir dir_;
};

TEST_F(AdapterChatTemplates, FolderWithoutATemplateHasNone) {
  EXPECT_TRUE(read().sources.empty());
  write_config(R"({"chat_template": null})");
  EXPECT_TRUE(read().sources.empty());
}

TEST_F(AdapterChatTemplates, FileOfItsOwnGoesBeforeTheTokenizersConfig) {
  write_config(R"({"chat_template": "from config"})");
  EXPECT_EQ(read().find("default")->text, "from config");
  dir_.write("chat_template.jinja", "from file\n");
  ASSERT_EQ(read().sources.size(), 1U);
  EXPECT_EQ(read().find("default")->text, "from file\n");
  EXPECT_THAT(read().find("default")->path, HasSubstr("chat_template.jinja"));
}

TEST_F(AdapterChatTemplates, ListOfTheConfigHasNames) {
  write_config(R"({"chat_template": [{"name": "default", "template": "D"},
                                     {"name": "tool_use", "template": "old"},
                                     {"name": "tool_use", "template": "T"}]})");
  ASSERT_EQ(read().sources.size(), 2U);
  EXPECT_EQ(read().choose(true)->text, "T");
  EXPECT_EQ(read().choose(false)->text, "D");
}

TEST_F(AdapterChatTemplates, FileThatIsNoFolderHasNone) {
  EXPECT_TRUE(read_adapter_chat_templates(dir_.write("adapter.gguf", "GGUF")).sources.empty());
}

TEST_F(AdapterChatTemplates, OtherFormsAreRefused) {
  write_config(R"({"chat_template": 1})");
  EXPECT_THAT(refusal(), HasSubstr("chat_template"));
  write_config(R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(refusal(), HasSubstr("has an entry of another form"));
  write_config("{");
  EXPECT_THAT(refusal(), HasSubstr("tokenizer_config.json"));
}

}  // namespace
}  // namespace patchbay
