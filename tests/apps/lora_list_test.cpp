#include "apps/lora_list.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <stdexcept>

#include "base/temp_dir.h"

namespace patchbay {

bool operator==(const LoraItem &a, const LoraItem &b) {
  return a.name == b.name && a.path == b.path && a.strength == b.strength;
}

namespace {

using testing::ElementsAre;

LoraItem item(std::string path, float strength = 1, std::string name = "") {
  return {.name = std::move(name), .path = std::move(path), .strength = strength};
}

std::vector<std::string> names_of(std::vector<LoraItem> items) {
  name_loras(items);
  std::vector<std::string> names;
  for (const auto &each : items) names.push_back(each.name);
  return names;
}

TEST(ParseLoraList, ReadsPathsStrengthsAndNames) {
  EXPECT_THAT(parse_lora_list("a.gguf", false), ElementsAre(item("a.gguf")));
  EXPECT_THAT(parse_lora_list("a.gguf:0.5,b", false), ElementsAre(item("a.gguf", 0.5F), item("b")));
  EXPECT_THAT(parse_lora_list("sql=a.gguf:-2,x=b", false),
              ElementsAre(item("a.gguf", -2, "sql"), item("b", 1, "x")));
  EXPECT_THAT(parse_lora_list("a:0,b:1e-3,c:+2", true),
              ElementsAre(item("a", 0), item("b", 1e-3F), item("c", 2)));
}

TEST(ParseLoraList, QuotesKeepCommasAndQuotes) {
  EXPECT_THAT(parse_lora_list(R"("a,b.gguf",c)", false), ElementsAre(item("a,b.gguf"), item("c")));
  EXPECT_THAT(parse_lora_list(R"("a,b.gguf:0.5")", false), ElementsAre(item("a,b.gguf", 0.5F)));
  EXPECT_THAT(parse_lora_list(R"("say ""hi"".gguf")", false),
              ElementsAre(item(R"(say "hi".gguf)")));
  EXPECT_THROW((void)parse_lora_list(R"("a,b)", false), std::invalid_argument);
}

TEST(ParseLoraList, AnItemThatExistsAsAPathIsThatPath) {
  const TempDir dir;
  for (const char *file : {"a:0.5", "x=y", "ünïcode – name.gguf", "with blank"}) {
    const std::string path = dir.write(file, "").string();
    EXPECT_THAT(parse_lora_list(path, false), ElementsAre(item(path))) << file;
    EXPECT_THAT(parse_lora_list(path + ":2", false), ElementsAre(item(path, 2))) << file;
    EXPECT_THAT(parse_lora_list("n=" + path + ":2", true), ElementsAre(item(path, 2, "n"))) << file;
  }
}

TEST(ParseLoraList, OnlyAFiniteNumberIsAStrength) {
  for (const char *text : {"a:nan", "a:inf", "a:1e99", "a:", "a:1x", "a: 1", "a:0x1"}) {
    EXPECT_THAT(parse_lora_list(text, false), ElementsAre(item(text))) << text;
    EXPECT_THROW((void)parse_lora_list(text, true), std::invalid_argument) << text;
  }
}

TEST(ParseLoraList, BehindAPathThatExistsOnlyAStrengthMayStand) {
  const TempDir dir;
  const std::string path = dir.write("a.gguf", "").string();
  for (const char *text : {":nan", ":inf", ":1e99", ":", ":1x"}) {
    EXPECT_THROW((void)parse_lora_list(path + text, false), std::invalid_argument) << text;
  }
}

TEST(ParseLoraList, EmptyItemsAreRefused) {
  for (const char *text : {"", "a,", ",a", "a,,b", "n=", "n=:1", ":1"}) {
    EXPECT_THROW((void)parse_lora_list(text, false), std::invalid_argument) << text;
  }
}

TEST(NameLoras, TakesStemOrFolderAndMakesItUnique) {
  const TempDir dir;
  std::filesystem::create_directories(dir.path() / "v1.5");
  const std::string folder = (dir.path() / "v1.5").string();
  EXPECT_THAT(names_of({item("x/sql.gguf"), item("y/sql.gguf"), item(folder), item(folder + "/")}),
              ElementsAre("sql", "sql-2", "v1.5", "v1.5-2"));
  EXPECT_THAT(names_of({item("sql.gguf"), item("b", 1, "sql")}), ElementsAre("sql-2", "sql"));
}

TEST(NameLoras, GivesOnlyNamesThatRequestsMayHave) {
  EXPECT_THAT(names_of({item("a,b.gguf"), item("a\nb.gguf"), item("/")}),
              ElementsAre("a_b", "a_b-2", "adapter"));
  const std::string here = std::filesystem::current_path().filename().string();
  EXPECT_THAT(names_of({item("."), item("./")}), ElementsAre(here, here + "-2"));
}

TEST(NameLoras, TheBasesNameIsTaken) {
  std::vector<LoraItem> items{item("x/base.gguf")};
  name_loras(items, "base");
  EXPECT_EQ(items[0].name, "base-2");
  std::vector<LoraItem> named{item("x.gguf", 1, "base")};
  EXPECT_THROW(name_loras(named, "base"), std::invalid_argument);
}

TEST(NameLoras, TheSameNameGivenTwiceIsRefused) {
  EXPECT_THROW((void)names_of({item("a", 1, "n"), item("b", 1, "n")}), std::invalid_argument);
}

}  // namespace
}  // namespace patchbay
