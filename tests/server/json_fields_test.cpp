#include "server/json_fields.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The first error that reading one member by `read` leaves.
template <class Read>
std::string error_of(const char *text, const Read &read) {
  const Json json = Json::parse(text);
  JsonFields fields(json);
  read(fields);
  return fields.error() == nullptr ? "" : fields.error()->error.message;
}

TEST(JsonFields, ReadsEachTypeAndTakesNullForMissing) {
  const Json json = Json::parse(R"({"s": "x", "b": true, "i": 3, "f": 2.0, "n": 0.5,
                                    "one": "a", "many": ["a", "b"], "null": null})");
  JsonFields fields(json);
  EXPECT_EQ(fields.text("s"), "x");
  EXPECT_EQ(fields.flag("b"), true);
  EXPECT_EQ(fields.integer("i", 0, 9), 3);
  EXPECT_EQ(fields.integer("f", 0, 9), 2);
  EXPECT_EQ(fields.number("n", 0, 1), 0.5);
  EXPECT_THAT(fields.texts("one"), ElementsAre("a"));
  EXPECT_THAT(fields.texts("many"), ElementsAre("a", "b"));
  for (const char *name : {"null", "missing"}) {
    EXPECT_EQ(fields.text(name), std::nullopt);
    EXPECT_EQ(fields.integer(name, 0, 9), std::nullopt);
    EXPECT_THAT(fields.texts(name), IsEmpty());
    EXPECT_EQ(fields.object(name), nullptr);
  }
  EXPECT_EQ(fields.error(), nullptr);
}

TEST(JsonFields, NumbersNeverChangeInSilence) {
  const auto integer = [](JsonFields &fields) { (void)fields.integer("x", -5, 4294967295); };
  for (const char *wrong : {"1.5", "true", "\"1\"", "4294967296", "-6", "18446744073709551615",
                            "1e300", "-1e300", "[1]"}) {
    EXPECT_NE(error_of((R"({"x": )" + std::string(wrong) + "}").c_str(), integer), "") << wrong;
  }
  for (const char *right : {"-5", "4294967295", "0", "-0.0", "7.0"})
    EXPECT_EQ(error_of((R"({"x": )" + std::string(right) + "}").c_str(), integer), "") << right;
}

TEST(JsonFields, TheFirstErrorStaysAndNamesItsMember) {
  const Json json = Json::parse(R"({"a": 1, "b": 2})");
  JsonFields fields(json, "outer");
  (void)fields.text("a");
  (void)fields.text("b");
  ASSERT_NE(fields.error(), nullptr);
  EXPECT_EQ(fields.error()->param, "outer.a");
  EXPECT_EQ(fields.error()->error.message, "outer.a must be a string, found 1");
}

TEST(JsonFields, AnythingButAnObjectIsAnError) {
  EXPECT_EQ(error_of("[1]", [](JsonFields &) {}), "the body must be an object, found an array");
}

TEST(ParseBody, BoundsItsDepth) {
  const auto nested = [](size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse_body(nested(100)));
  const auto refused = parse_body(nested(1000000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the body nests deeper than 100 levels");
}

}  // namespace
}  // namespace patchbay
