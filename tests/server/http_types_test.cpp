#include "server/http_types.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ParseTarget, DecodesPathAndQuery) {
  HttpRequest request;
  ASSERT_TRUE(parse_target("/v1/models/a%2Fb%20c?x=1+2&y&z=%26#part", request));
  EXPECT_EQ(request.path, "/v1/models/a/b c");
  EXPECT_THAT(request.query, ElementsAre(Pair("x", "1 2"), Pair("y", ""), Pair("z", "&")));
  EXPECT_EQ(request.query_value("z"), "&");
  EXPECT_EQ(request.query_value("none"), std::nullopt);
}

TEST(ParseTarget, RefusesWhatIsNoPath) {
  HttpRequest request;
  for (const char *target : {"", "*", "x", "/%", "/%4", "/%zz", "/?a=%g0", "http://host/"})
    EXPECT_FALSE(parse_target(target, request)) << target;
}

TEST(PercentEncode, ComesBack) {
  const std::string text = "caf\xC3\xA9, 100% \x01~";
  EXPECT_EQ(percent_encode(text), "caf%C3%A9%2C%20100%25%20%01~");
  EXPECT_EQ(percent_decode(percent_encode(text)), text);
}

TEST(HttpRequest, NamesOfHeadersCompareWithoutCase) {
  const HttpRequest request{.headers = {{"X-API-Key", "one"}, {"x-api-key", "two"}}};
  EXPECT_EQ(request.header("x-Api-key"), "one");
  EXPECT_EQ(request.header("x-api"), std::nullopt);
}

}  // namespace
}  // namespace patchbay
