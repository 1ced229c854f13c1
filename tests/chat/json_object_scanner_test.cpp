#include "chat/json_object_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace patchbay {
namespace {

using State = JsonObjectScanner::State;

State scan(std::string_view text) {
  JsonObjectScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    if (scanner.state() != State::open) return i < text.size() ? State::wrong : scanner.state();
    scanner.push(text[i]);
  }
  return scanner.state();
}

TEST(JsonObjectScanner, KnowsEveryFormOfValue) {
  for (const char *text :
       {R"({})", R"(  { } )", R"({"a":1})", R"({"a": -0.5e+10 , "b":[1,2 ,[]], "c":{"d":null}})",
        R"({"a":true,"b":false,"c":"x\n\u00e9\"","d":0,"e":-0,"f":1E5,"g":10.25})"})
    EXPECT_EQ(scan(std::string_view(text).substr(0, std::string_view(text).rfind('}') + 1)),
              State::complete)
        << text;
  for (const char *text : {"[]",
                           "1",
                           "\"a\"",
                           "{a:1}",
                           "{'a':1}",
                           R"({"a"})",
                           R"({"a":})",
                           R"({"a":1,})",
                           R"({"a":[1,]})",
                           R"({"a":01})",
                           R"({"a":1.})",
                           R"({"a":.5})",
                           R"({"a":+1})",
                           R"({"a":-})",
                           R"({"a":1e})",
                           R"({"a":nul})",
                           R"({"a":truee})",
                           R"({"a":"\x"})",
                           R"({"a":"\u12g4"})",
                           "{\"a\":\"\n\"}",
                           R"({"a":[1})",
                           R"({"a":{]})",
                           R"({,})",
                           R"({"a" 1})",
                           R"({"a":1 "b":2})",
                           R"({"a":1}})"})
    EXPECT_EQ(scan(text), State::wrong) << text;
  for (const char *text : {"", "{", R"({"a)", R"({"a":)", R"({"a":12)", R"({"a":[{)"})
    EXPECT_EQ(scan(text), State::open) << text;
}

TEST(JsonObjectScanner, TooDeepIsWrong) {
  const auto nested = [](size_t n) {
    return R"({"a":)" + std::string(n, '[') + std::string(n, ']') + "}";
  };
  EXPECT_EQ(scan(nested(99)), State::complete);
  EXPECT_EQ(scan(nested(100)), State::wrong);
}

TEST(JsonObjectScanner, SaysWhereMembersStand) {
  const std::string text = R"( {"a": 12, "b\n":{"c":[1]},"d" : "x" ,"e":null})";
  JsonObjectScanner scanner;
  for (const char c : text) scanner.push(c);
  ASSERT_EQ(scanner.state(), State::complete);
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto &[key, begin, end] : scanner.members())
    found.emplace_back(key, text.substr(begin, end - begin));
  const std::vector<std::pair<std::string, std::string>> wanted{
      {"\"a\"", "12"}, {"\"b\\n\"", R"({"c":[1]})"}, {"\"d\"", "\"x\""}, {"\"e\"", "null"}};
  EXPECT_EQ(found, wanted);
}

TEST(JsonObjectScanner, AgreesWithAnotherReader) {
  // Small changes to an object: most are damage, some are not.
  const std::string base = R"({"a":[1,-2.5e3,true],"b":{"c":"d\u0041\\"},"e":null})";
  const std::string letters = "{}[]\",:0123456789-+.eEtrufalsn\\ ";
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return random() % n; };
  int n_good = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = base;
    for (size_t n = 1 + below(2); n > 0; --n) {
      const size_t at = below(text.size());
      switch (below(3)) {
        case 0:
          text[at] = letters[below(letters.size())];
          break;
        case 1:
          text.erase(at, 1);
          break;
        default:
          text.insert(at, 1, letters[below(letters.size())]);
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    const bool is_object = text.find_first_not_of(' ') != std::string::npos &&
                           text[text.find_first_not_of(' ')] == '{' && nlohmann::json::accept(text);
    n_good += is_object ? 1 : 0;
    EXPECT_EQ(scan(text) == State::complete, is_object) << text;
  }
  EXPECT_GT(n_good, 1000);
}

}  // namespace
}  // namespace patchbay
