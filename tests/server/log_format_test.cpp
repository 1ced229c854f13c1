#include "server/log_format.h"

#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>

#include <sstream>

#include "base/log.h"

namespace patchbay {
namespace {

/// What a line of the text log says behind its level.
std::string logged(const Json &fields) {
  std::ostringstream text;
  auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(text);
  sink->set_pattern("%v");
  auto &sinks = log().sinks();
  const auto sinks_before = sinks;
  const auto level = log().level();
  sinks = {sink};
  log().set_level(spdlog::level::info);
  log_line(LogFormat::text, "request", fields);
  log().set_level(level);
  sinks = sinks_before;
  return text.str();
}

TEST(LogFormat, WordsAndNumbersStandAsTheyAre) {
  EXPECT_EQ(logged({{"path", "/v1/x%20y"}, {"n", 3}, {"complete", false}}),
            "request path=/v1/x%20y n=3 complete=false\n");
}

TEST(LogFormat, WhatIsNoWordIsQuotedSoThatItEndsNoLineAndNoField) {
  EXPECT_EQ(logged({{"prompt", "a b\n=c"}}), "request prompt=\"a b\\n=c\"\n");
  EXPECT_EQ(logged({{"prompt", ""}, {"x", "\x1b[2J"}}), "request prompt=\"\" x=\"\\u001b[2J\"\n");
  EXPECT_EQ(logged({{"prompt", "\"q\""}}), "request prompt=\"\\\"q\\\"\"\n");
}

}  // namespace
}  // namespace patchbay
