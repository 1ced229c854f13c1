#include "grammar/json_number_grammar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "grammar/grammar_support.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

std::shared_ptr<const Grammar> grammar_of(const Expected<grammar::Expr> &expr) {
  grammar::Rules rules;
  rules.rules.push_back({"number", expr.value()});
  return std::make_shared<const Grammar>(Grammar::compile(rules).value());
}

NumberBounds between(const char *min, const char *max) {
  const auto decimal = [](const char *text) {
    return text == nullptr ? std::nullopt : to_decimal(nlohmann::ordered_json::parse(text));
  };
  return {.min = decimal(min), .max = decimal(max)};
}

TEST(JsonNumberGrammar, IntegersWithinBoundsAreExactlyThose) {
  for (const auto &[min, max] : {std::pair{0, 0},
                                 {0, 9},
                                 {-3, 3},
                                 {5, 120},
                                 {99, 1001},
                                 {-1001, -99},
                                 {-120, 7},
                                 {100, 100},
                                 {-1, -1},
                                 {7, 70}}) {
    for (const uint64_t multiple : {uint64_t{1}, uint64_t{7}}) {
      const NumberBounds bounds{
          .min = to_decimal(min), .max = to_decimal(max), .multiple_of = multiple};
      if (multiple == 7 && max - min < 7 && (min % 7 != 0)) continue;  // there may be none
      const auto grammar = grammar_of(json_integers(bounds));
      for (int value = -1200; value <= 1200; ++value) {
        const bool wanted = value >= min && value <= max && value % static_cast<int>(multiple) == 0;
        ASSERT_EQ(matches(grammar, std::to_string(value)), wanted)
            << value << " in " << min << ".." << max;
      }
      for (const char *no : {"", "-", "00", "-0", "01", "+1", "1.0", "1e1"})
        EXPECT_FALSE(matches(grammar, no)) << no;
    }
  }
}

TEST(JsonNumberGrammar, ExcludedAndFractionalBoundsOfIntegersAreRoundedInwards) {
  NumberBounds bounds = between("2.5", "10");
  bounds.excludes_max = true;
  const auto grammar = grammar_of(json_integers(bounds));
  EXPECT_FALSE(matches(grammar, "2"));
  EXPECT_TRUE(matches(grammar, "3"));
  EXPECT_TRUE(matches(grammar, "9"));
  EXPECT_FALSE(matches(grammar, "10"));
  const auto below = grammar_of(json_integers(between("-2.5", "-0.5")));
  EXPECT_FALSE(matches(below, "-3"));
  EXPECT_TRUE(matches(below, "-2"));
  EXPECT_TRUE(matches(below, "-1"));
  EXPECT_FALSE(matches(below, "0"));
}

TEST(JsonNumberGrammar, IntegersHaveAtMostEighteenDigits) {
  const auto grammar = grammar_of(json_integers({}));
  EXPECT_TRUE(matches(grammar, "-" + std::string(18, '9')));
  EXPECT_FALSE(matches(grammar, std::string(19, '9')));
  EXPECT_TRUE(matches(grammar_of(json_integers(between("-1e30", "1e30"))), std::string(18, '9')));
  EXPECT_THAT(json_integers(between("1e30", nullptr)).error().message,
              HasSubstr("more than 18 digits"));
  EXPECT_THAT(json_integers({.multiple_of = 1001}).error().message, HasSubstr("multipleOf 1001"));
}

TEST(JsonNumberGrammar, NumbersWithinBoundsAreExactlyThose) {
  struct Case {
    const char *min, *max;
    bool excludes;
  };
  for (const auto &[min, max, excludes] : {Case{"0", "1", false},
                                           {"0", "1", true},
                                           {"-1.5", "2.25", false},
                                           {"-1.5", "2.25", true},
                                           {"0.125", "0.25", false},
                                           {"-0.3", "-0.07", true},
                                           {"9.5", "10.5", false},
                                           {"3", "3", false},
                                           {"-20", "-9.99", false}}) {
    NumberBounds bounds = between(min, max);
    bounds.excludes_min = bounds.excludes_max = excludes;
    const auto grammar = grammar_of(json_numbers(bounds));
    const double low = std::stod(min);
    const double high = std::stod(max);
    for (int thousandths = -21000; thousandths <= 11000; thousandths += 5) {
      const std::string sign = thousandths < 0 ? "-" : "";
      const int size = std::abs(thousandths);
      const std::string text = sign + fmt::format("{}.{:03}", size / 1000, size % 1000);
      const double value = std::stod(text);
      const bool wanted = excludes ? value > low && value < high : value >= low && value <= high;
      ASSERT_EQ(matches(grammar, text), wanted) << text << " in " << min << ".." << max;
      if (size % 1000 == 0 && thousandths != 0) {
        ASSERT_EQ(matches(grammar, sign + std::to_string(size / 1000)), wanted);
      }
    }
    for (const char *no : {"", "-", ".5", "1.", "00.5", "01", "1e0", "-0.0"})
      EXPECT_FALSE(matches(grammar, no)) << no;
  }
}

TEST(JsonNumberGrammar, ComparedNumbersHaveAtMostFifteenDigits) {
  const auto grammar = grammar_of(json_numbers(between(nullptr, "1")));
  EXPECT_TRUE(matches(grammar, "0." + std::string(14, '9')));
  EXPECT_FALSE(matches(grammar, "0." + std::string(15, '9')));
  EXPECT_TRUE(matches(grammar, "-" + std::string(15, '9')));
  EXPECT_FALSE(matches(grammar, "-" + std::string(15, '9') + ".0"));
  EXPECT_FALSE(json_numbers(between("0.1234567890123456", nullptr)));
}

TEST(JsonNumberGrammar, UnboundedNumbersAreJsonsOwn) {
  const auto grammar = grammar_of(json_numbers({}));
  for (const char *yes : {"0", "-0", "1.50", "-12e7", "3E-08", "1e+9"})
    EXPECT_TRUE(matches(grammar, yes)) << yes;
  for (const char *no : {"01", "1.", ".1", "+1", "1e", "--1", "1e100", "NaN"})
    EXPECT_FALSE(matches(grammar, no)) << no;
}

TEST(Decimal, ComparesAndSpellsJsonNumbers) {
  const auto decimal = [](const char *text) {
    return to_decimal(nlohmann::ordered_json::parse(text)).value();
  };
  EXPECT_EQ(decimal("1.50"), (Decimal{.integer = "1", .fraction = "5"}));
  EXPECT_EQ(decimal("1e3"), (Decimal{.integer = "1000"}));
  EXPECT_EQ(decimal("-2.5e-3"), (Decimal{.is_negative = true, .integer = "0", .fraction = "0025"}));
  EXPECT_EQ(decimal("-0.0"), Decimal{});
  EXPECT_EQ(decimal("18446744073709551615").integer, "18446744073709551615");
  const std::vector<const char *> rising{"-1e20", "-10", "-9.5", "-9",   "-0.5", "-0.25", "0",
                                         "0.001", "0.5", "1",    "1.05", "1.5",  "10",    "99"};
  for (size_t i = 0; i < rising.size(); ++i) {
    for (size_t j = 0; j < rising.size(); ++j)
      EXPECT_EQ(decimal(rising[i]) < decimal(rising[j]), i < j);
  }
  EXPECT_EQ(to_decimal(nlohmann::ordered_json::parse("1e300")), std::nullopt);
}

}  // namespace
}  // namespace patchbay
