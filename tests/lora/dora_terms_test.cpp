#include "lora/dora_terms.h"

#include <gtest/gtest.h>

#include "lora/factor_ops.h"
#include "lora/numbered_base.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

/// The pair of a use with lengths of its own, and the base that it is for.
struct Case {
  BaseInfo base;
  FactorPair pair;
};

Case make_case(const AdaptableUse &use) {
  Case made{.base = dense_base()};
  made.base.uses = {use};
  made.base = numbered_base(made.base);
  made.pair = make_random_adapter(made.base.uses, 3, 0.7F, 5)->pairs.front();
  made.pair.scale = 1.5F;
  const int64_t n_expert = use.kind == UseKind::experts ? use.ne[2] : 1;
  const auto lengths = numbered(n_expert, made.pair.b.ne[1], 3).values;
  made.pair.magnitude = make_factor({made.pair.b.ne[1], n_expert, 1}, lengths);
  return made;
}

std::shared_ptr<const DoraTerms> terms_of(const Case &c) {
  return make_dora_terms(c.pair, *c.base.tensors, *c.base.tensors->find(c.pair.target));
}

/// |W_i + t s B_i A| by its definition; of a table the length of dimension i over its rows.
double length_of(const Case &c, int64_t i, double strength) {
  const auto &use = c.base.uses.front();
  const auto w = base_numbers(use.name, use.ne[0] * use.ne[1] * use.ne[2]);
  const auto a = numbers(c.pair.a);
  const auto b = numbers(c.pair.b);
  const bool is_table = use.kind == UseKind::embed;
  const int64_t n = is_table ? use.ne[1] : use.ne[0];
  const int64_t i_expert = is_table ? 0 : i / use.ne[1];
  const auto at = [](int64_t index) { return static_cast<size_t>(index); };
  double sum = 0;
  for (int64_t k = 0; k < n; ++k) {
    double value = w[at(is_table ? k * use.ne[0] + i : i * n + k)];
    for (int64_t r = 0; r < 3; ++r) {
      value += strength * c.pair.scale * static_cast<double>(b[at(i * 3 + r)]) *
               a[at(is_table ? k * 3 + r : (i_expert * 3 + r) * n + k)];
    }
    sum += value * value;
  }
  return std::sqrt(sum);
}

const std::vector<AdaptableUse> k_uses{{"linear", UseKind::linear, {40, 70, 1}},
                                       {"experts", UseKind::experts, {9, 5, 3}},
                                       {"table", UseKind::embed, {6, 50, 1}}};

TEST(DoraTerms, GainsBringEachRowToItsLengthAtAnyStrength) {
  for (const auto &use : k_uses) {
    const Case c = make_case(use);
    const auto terms = terms_of(c);
    const auto lengths = numbers(c.pair.magnitude);
    for (const float strength : {1.0F, 0.5F, -1.0F, 2.0F, 0.0F}) {
      for (size_t i = 0; i < lengths.size(); ++i) {
        const double want = lengths[i] / length_of(c, static_cast<int64_t>(i), strength);
        EXPECT_NEAR(terms->gain(i, strength), want, 1e-4 * std::abs(want) + 1e-7)
            << use.name << " row " << i << " at " << strength;
      }
    }
  }
}

TEST(DoraTerms, AnExpertWithoutAPairKeepsItsLengths) {
  Case c = make_case(k_uses[1]);
  auto lengths = numbers(c.pair.magnitude);
  std::fill_n(lengths.begin() + 5, 5, 0.0F);
  c.pair.magnitude = make_factor({5, 3, 1}, lengths);
  const auto terms = terms_of(c);
  for (size_t i = 5; i < 10; ++i) EXPECT_EQ(terms->gain(i, 0.7F), 1);
  EXPECT_NE(terms->gain(4, 0.7F), 1);
}

TEST(DoraTerms, ARowThatTheChangeTakesAwayHasAFiniteGain) {
  const DoraTerms terms{.magnitude = {2}, .base = {1}, .cross = {-2}, .delta = {1}};
  EXPECT_TRUE(std::isfinite(terms.gain(0, 1)));
}

TEST(DoraTerms, AreTheSameBitsEveryTime) {
  for (const auto &use : k_uses) {
    const Case c = make_case(use);
    const auto one = terms_of(c);
    const auto other = terms_of(c);
    EXPECT_EQ(one->base, other->base);
    EXPECT_EQ(one->cross, other->cross);
    EXPECT_EQ(one->delta, other->delta);
  }
}

}  // namespace
}  // namespace patchbay
