#include "apps/chat_commands.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using Kind = ChatCommand::Kind;
using testing::HasSubstr;

TEST(ChatCommands, OneSlashBeginsACommand) {
  const auto read = [](const char *line) {
    const auto command = parse_chat_command(line);
    return std::pair(command.kind, command.text);
  };
  EXPECT_EQ(read("Hello /help"), std::pair(Kind::say, std::string("Hello /help")));
  EXPECT_EQ(read(""), std::pair(Kind::say, std::string()));
  EXPECT_EQ(read("//help"), std::pair(Kind::say, std::string("/help")));
  EXPECT_EQ(read("/help"), std::pair(Kind::help, std::string()));
  EXPECT_EQ(read("/system  Be brief. "), std::pair(Kind::system, std::string("Be brief. ")));
  EXPECT_EQ(read("/exit"), std::pair(Kind::quit, std::string()));
  EXPECT_EQ(read("/helpme x"), std::pair(Kind::unknown, std::string("/helpme x")));
  EXPECT_EQ(read("/"), std::pair(Kind::unknown, std::string("/")));
}

/// "0=1 2=-0.5", or what is refused.
std::string chosen(const char *words) {
  const auto adapters = parse_chosen_adapters(words, {"sql", "a:2", "é"}, {1, 2, 0.5F});
  if (!adapters) return adapters.error().message;
  std::string text;
  for (const auto &[i_adapter, strength] : *adapters)
    text += std::to_string(i_adapter) + "=" + std::to_string(strength).substr(0, 4) + " ";
  return text;
}

TEST(ChatCommands, AdaptersHaveNamesAndStrengths) {
  EXPECT_EQ(chosen(""), "");
  EXPECT_EQ(chosen("base"), "");
  EXPECT_EQ(chosen("sql"), "0=1.00 ");
  EXPECT_EQ(chosen(" é:2  sql:-1 "), "2=2.00 0=-1.0 ");
  EXPECT_EQ(chosen("a:2"), "1=2.00 ");
  EXPECT_EQ(chosen("a:2:0.5"), "1=0.50 ");
  EXPECT_THAT(chosen("a:3"), HasSubstr("no adapter 'a'"));
  EXPECT_THAT(chosen("sql base"), HasSubstr("no adapter 'base'"));
  EXPECT_THAT(chosen("sql sql:2"), HasSubstr("'sql' is there twice"));
  for (const char *wrong : {"sql:", "sql:x", "sql:1x", "sql:inf", "sql:nan"})
    EXPECT_THAT(chosen(wrong), HasSubstr("is no strength")) << wrong;
}

}  // namespace
}  // namespace patchbay
