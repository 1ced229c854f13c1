#include "base/read_json.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

JsonFault fault_of(std::string_view text, const JsonLimits &limits = {}) {
  const auto read = read_json(text, limits);
  EXPECT_FALSE(read.has_value()) << text.substr(0, 80);
  return read ? JsonFault::syntax : read.error().fault;
}

std::string nested(size_t n_levels, const char *open, const char *close) {
  std::string text;
  for (size_t i = 0; i < n_levels; ++i) text += open;
  text += "1";
  for (size_t i = 0; i < n_levels; ++i) text += close;
  return text;
}

TEST(ReadJson, GivesWhatNlohmannsReaderGives) {
  for (const char *text : {"null", "true", " -0 ", "1e3", "18446744073709551615",
                           "-9223372036854775808", "0.1", R"("\u00e9\ud83d\ude00\n")", "[]", "{}",
                           R"({"b":[1,{"a":{}},[[]],"x"],"a":{"c":null,"b":2}})",
                           R"([{"a":1},{"a":2},{"b":[{},{}]}])", R"({"":{"":1}})"}) {
    const auto read = read_json(text);
    ASSERT_TRUE(read.has_value()) << text;
    const auto wanted = ordered_json::parse(text);
    EXPECT_EQ(read->dump(), wanted.dump());
    EXPECT_EQ(read->type(), wanted.type());
  }
}

TEST(ReadJson, ALaterMemberOfTheSameNameCountsAndKeepsThePlace) {
  const auto read = read_json(R"({"a":{"x":1},"b":2,"a":[3],"b":{"a":4}})");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->dump(), R"({"a":[3],"b":{"a":4}})");
}

TEST(ReadJson, ManyMembersStayInTheirOrder) {
  std::string text = "{";
  for (int i = 0; i < 5000; ++i)
    text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i * 7919) + "\":[{}]";
  text += "}";
  const auto read = read_json(text);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->dump(), text);
}

TEST(ReadJson, LevelsAreBounded) {
  for (const auto &[open, close] : {std::pair("[", "]"), std::pair(R"({"a":)", "}")}) {
    EXPECT_TRUE(read_json(nested(5, open, close), {.n_levels = 5}).has_value());
    EXPECT_EQ(fault_of(nested(6, open, close), {.n_levels = 5}), JsonFault::too_deep);
    EXPECT_EQ(fault_of(nested(1'000'000, open, close)), JsonFault::too_deep);
  }
}

TEST(ReadJson, KeysOfAllObjectsTogetherAreBounded) {
  EXPECT_TRUE(read_json(R"([{"a":1},{"a":{"b":2}}])", {.n_keys = 3}).has_value());
  EXPECT_EQ(fault_of(R"([{"a":1},{"a":{"b":2}}])", {.n_keys = 2}), JsonFault::too_many_keys);
}

TEST(ReadJson, WhatIsNoJsonIsRefusedWithThePlace) {
  for (const std::string_view text :
       {std::string_view(""), std::string_view("{"), std::string_view("[1,]"),
        std::string_view("{\"a\" 1}"), std::string_view("1 2"), std::string_view("1e400"),
        std::string_view("\"\xff\""), std::string_view("nul"), std::string_view("{}\0{", 4),
        std::string_view("\"a\0b\"", 5)}) {
    EXPECT_EQ(fault_of(text), JsonFault::syntax);
  }
  EXPECT_THAT(read_json("[1,]").error().message, HasSubstr("column 4"));
}

}  // namespace
}  // namespace patchbay
