#include "server/metrics_text.h"

#include <gmock/gmock.h>

#include <cmath>

namespace patchbay {
namespace {

TEST(MetricsText, EscapesWhatWouldEndALabel) {
  MetricsText text;
  text.family("x_total", MetricsText::Type::counter, "What it is.");
  text.sample({{"a", "\"\\\n,}"}, {"b", ""}}, 3);
  EXPECT_EQ(text.take(),
            "# HELP x_total What it is.\n# TYPE x_total counter\n"
            "x_total{a=\"\\\"\\\\\\n,}\",b=\"\"} 3\n");
}

TEST(MetricsText, LeavesOutFamiliesWithoutSamples) {
  MetricsText text;
  text.family("one", MetricsText::Type::gauge, "None.");
  text.family("two", MetricsText::Type::gauge, "Some.");
  text.sample(0.1);
  text.sample({{"a", "b"}}, NAN);
  text.sample({{"a", "c"}}, -INFINITY);
  EXPECT_EQ(text.take(),
            "# HELP two Some.\n# TYPE two gauge\ntwo 0.1\ntwo{a=\"b\"} NaN\ntwo{a=\"c\"} -Inf\n");
}

TEST(MetricsText, AHistogramRisesToItsCount) {
  constexpr std::array<double, 2> k_bounds{0.5, 2};
  Histogram histogram(k_bounds);
  for (const double seconds : {0.25, 0.5, 1.0, 8.0}) histogram.observe(seconds);
  MetricsText text;
  text.family("h", MetricsText::Type::histogram, "H.");
  text.histogram({{"a", "b"}}, histogram.counts());
  EXPECT_EQ(text.take(),
            "# HELP h H.\n# TYPE h histogram\n"
            "h_bucket{a=\"b\",le=\"0.5\"} 2\nh_bucket{a=\"b\",le=\"2\"} 3\n"
            "h_bucket{a=\"b\",le=\"+Inf\"} 4\nh_sum{a=\"b\"} 9.75\nh_count{a=\"b\"} 4\n");
}

}  // namespace
}  // namespace patchbay
