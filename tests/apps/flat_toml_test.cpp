#include "apps/flat_toml.h"

#include <gmock/gmock.h>

#include <stdexcept>

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST(FlatToml, ReadsEveryKindOfValue) {
  const auto values = parse_flat_toml(R"(
# a comment
port = 8080   # another one
temp= 0.5
metrics =false
"api-key" = "a#b, c = [d]"
path = 'C:\new "x"'
empty = []
lora = [ "a,b.gguf" , 'c=d.gguf',  # the last comma is allowed
  "e",
]
big = 1_000
minus = -1)");
  EXPECT_THAT(values, UnorderedElementsAre(
                          Pair("port", ElementsAre("8080")), Pair("temp", ElementsAre("0.5")),
                          Pair("metrics", ElementsAre("false")),
                          Pair("api-key", ElementsAre("a#b, c = [d]")),
                          Pair("path", ElementsAre("C:\\new \"x\"")), Pair("empty", IsEmpty()),
                          Pair("lora", ElementsAre("a,b.gguf", "c=d.gguf", "e")),
                          Pair("big", ElementsAre("1000")), Pair("minus", ElementsAre("-1"))));
}

TEST(FlatToml, EscapesComeBack) {
  for (const std::string text :
       {"plain", "\"quotes\" and \\", "a\nb\tc\x01\x7F", "na\xC3\xAFve", ""}) {
    EXPECT_THAT(parse_flat_toml("x = " + toml_text(text)),
                ElementsAre(Pair("x", ElementsAre(text))));
  }
  EXPECT_THAT(parse_flat_toml(R"(x = "\u00e9\U0001F600\t")"),
              ElementsAre(Pair("x", ElementsAre("\xC3\xA9\xF0\x9F\x98\x80\t"))));
}

TEST(FlatToml, WhatIsWrongIsSaidWithItsLine) {
  const auto error_of = [](const std::string &text) -> std::string {
    try {
      (void)parse_flat_toml("a = 1\n" + text);
    } catch (const std::invalid_argument &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("b"), "line 2 wants '=' behind its key");
  EXPECT_EQ(error_of("\n[table]"), "line 3 is a table, and there are none");
  EXPECT_EQ(error_of("b = word"), "line 2 has no value: texts stand in quotes");
  EXPECT_EQ(error_of("b ="), "line 2 has no value: texts stand in quotes");
  EXPECT_EQ(error_of("b = \"x"), "line 2 ends within a text");
  EXPECT_EQ(error_of("b = 'x\n'"), "line 2 ends within a text");
  EXPECT_EQ(error_of("b = 1 2"), "line 2 goes on behind its value");
  EXPECT_EQ(error_of("a = 2"), "line 2 says a a second time");
  EXPECT_EQ(error_of("b = [1\n2]"), "line 3 wants ',' or ']' in its array");
  EXPECT_EQ(error_of("= 3"), "line 2 begins with no key");
  for (const char *escape : {"\\x", "\\u12", "\\uD800", "\\U00110000", "\\"})
    EXPECT_THAT(error_of(std::string("b = \"") + escape + "\""), HasSubstr("line 2")) << escape;
}

TEST(FlatToml, CutAnywhereIsReadOrRefused) {
  const std::string text = "a = [\"x\", 'y', 1] # c\n\"b\" = \"\\u00e9\"\n";
  for (size_t n = 0; n < text.size(); ++n) {
    try {
      (void)parse_flat_toml(text.substr(0, n));
    } catch (const std::invalid_argument &error) {
      EXPECT_THAT(error.what(), HasSubstr("line"));
    }
  }
}

}  // namespace
}  // namespace patchbay
