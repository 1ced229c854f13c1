#include "tools/combine.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gguf/load_failure.h"
#include "tools/merge_support.h"

namespace patchbay {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json read_cases() {
  std::ifstream in(PATCHBAY_SOURCE_DIR "/tests/data/combine_cases.json");
  return json::parse(in);
}

std::vector<float> flat(const json &matrix) {
  std::vector<float> numbers;
  for (const auto &row : matrix) {
    for (const auto &number : row) numbers.push_back(number.get<float>());
  }
  return numbers;
}

CombineRule rule_of(const std::string &name) {
  for (const auto rule :
       {CombineRule::linear, CombineRule::ties, CombineRule::dare_linear, CombineRule::dare_ties}) {
    if (to_string(rule) == name) return rule;
  }
  ADD_FAILURE() << name;
  return CombineRule::linear;
}

/// The masks that PEFT was given, those from `first` on.
DareMask masks_of(const json &one, size_t first) {
  return [&one, i = first](size_t n) mutable {
    const auto bits = one.at("masks").at(i++).get<std::vector<int>>();
    EXPECT_EQ(bits.size(), n);
    return std::vector<bool>(bits.begin(), bits.end());
  };
}

TEST(Combine, AgreesWithPeft) {
  const json all = read_cases();
  const json &adapters = all.at("adapters");
  for (const auto &one : all.at("cases")) {
    for (const char *side : {"a", "b"}) {
      std::vector<std::vector<float>> tensors;
      std::vector<float> weights;
      for (const auto &adapter : adapters) {
        const double weight =
            adapter.at("weight").get<double>() * adapter.at("scale").get<double>();
        const double root = std::sqrt(std::abs(weight));
        weights.push_back(static_cast<float>(weight < 0 && *side == 'a' ? -root : root));
        tensors.push_back(flat(adapter.at(side)));
      }
      const auto got = combine_numbers(rule_of(one.at("rule")), one.at("density"), tensors, weights,
                                       masks_of(one, *side == 'a' ? 0 : adapters.size()));
      const auto wanted = flat(one.at(side));
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], wanted[i], 1e-6) << one.at("rule") << " " << side;
    }
  }
}

/// Without DARE, whose masks are drawn.
TEST(Combine, AgreesWithPeftOnWholeAdapters) {
  const json all = read_cases();
  std::vector<MergedAdapter> adapters;
  for (const auto &one : all.at("adapters")) {
    FactorPair pair{.target = "w",
                    .n_rank = 3,
                    .scale = one.at("scale").get<float>(),
                    .a = make_factor({6, 3, 1}, flat(one.at("a"))),
                    .b = make_factor({3, 5, 1}, flat(one.at("b")))};
    adapters.push_back(adapter_of({pair}, {}, one.at("weight").get<float>()));
  }
  for (const auto &one : all.at("cases")) {
    if (!one.at("masks").empty()) continue;
    const auto combined = combine_adapters(adapters, rule_of(one.at("rule")), one.at("density"), 1);
    ASSERT_EQ(combined->pairs.size(), 1U);
    const auto &pair = combined->pairs.front();
    EXPECT_EQ(pair.scale, 1);
    std::vector<float> got(15);
    to_f32(pair.b, 0, got);
    const auto wanted = flat(one.at("b"));
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6);
  }
}

TEST(Combine, DareKeepsTheMeanOverSeeds) {
  constexpr int k_seeds = 4000;
  const auto one = adapter_of({{.target = "w",
                                .n_rank = 2,
                                .a = random_numbers({4, 2, 1}, 1),
                                .b = random_numbers({2, 4, 1}, 2)}});
  std::vector<double> mean(8);
  for (uint64_t seed = 0; seed < k_seeds; ++seed) {
    const auto combined = combine_adapters(std::vector{one}, CombineRule::dare_linear, 0.5, seed);
    std::vector<float> a(8);
    to_f32(combined->pairs.front().a, 0, a);
    for (size_t i = 0; i < a.size(); ++i) mean[i] += a[i] / k_seeds;
  }
  std::vector<float> wanted(8);
  to_f32(one.adapter->pairs.front().a, 0, wanted);
  // Each number is 0 or twice itself: the mean of so many is off by 1.6 % of it, one in 1e5 by 7 %.
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(mean[i], wanted[i], 0.07 * std::abs(wanted[i]));
}

TEST(Combine, TheSameSeedDropsTheSame) {
  const auto one = adapter_of({{.target = "w",
                                .n_rank = 2,
                                .a = random_numbers({40, 2, 1}, 1),
                                .b = random_numbers({2, 4, 1}, 2)}});
  const auto digest = [&](uint64_t seed) {
    return combine_adapters(std::vector{one}, CombineRule::dare_ties, 0.5, seed)->digest;
  };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
}

TEST(Combine, RefusesOtherRanksAndMoreThanPairs) {
  const auto pair = [](int64_t n_rank) {
    return FactorPair{.target = "w",
                      .n_rank = n_rank,
                      .a = random_numbers({4, n_rank, 1}, 1),
                      .b = random_numbers({n_rank, 4, 1}, 2)};
  };
  const auto combine = [](const std::vector<MergedAdapter> &adapters) {
    return load_failure([&] { (void)combine_adapters(adapters, CombineRule::linear, 1, 0); });
  };
  EXPECT_THAT(combine({adapter_of({pair(2)}), adapter_of({pair(3)})}), HasSubstr("another rank"));
  FactorPair dora = pair(2);
  dora.magnitude = random_numbers({4, 1, 1}, 3);
  EXPECT_THAT(combine({adapter_of({dora})}), HasSubstr("more than low-rank pairs"));
  EXPECT_THAT(
      combine({adapter_of({pair(2)}, {{.tensor = "n", .value = random_numbers({4, 1, 1}, 3)}})}),
      HasSubstr("more than low-rank pairs"));
}

}  // namespace
}  // namespace patchbay
