#include "engine/fair_share.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

const AdapterKey k_base;
const AdapterKey k_one{{1}};

TEST(FairShare, ACounterIsTheCostOverTheWeight) {
  FairShare share({{"double", 2}});
  auto &plain = share.open("plain", k_base);
  auto &heavy = share.open("double", k_base);
  share.charge(plain, 10);
  share.charge(heavy, 10);
  EXPECT_EQ(share.counter_of(*plain.tenant), 10);
  EXPECT_EQ(share.counter_of(*heavy.tenant), 5);
  EXPECT_EQ(FairShare::counter_of(heavy), 10) << "what is worn has no weight";
}

TEST(FairShare, EverySetOfAdaptersHasItsOwnCounterWithinTheTenant) {
  FairShare share;
  auto &base = share.open("a", k_base);
  auto &adapted = share.open("a", k_one);
  ASSERT_EQ(base.tenant, adapted.tenant);
  share.charge(base, 10);
  EXPECT_EQ(FairShare::counter_of(base), 10);
  EXPECT_EQ(FairShare::counter_of(adapted), 0);
  EXPECT_EQ(share.counter_of(*base.tenant), 10);
  EXPECT_EQ(&share.open("a", k_one), &adapted);
}

TEST(FairShare, WhoComesLateStartsWhereTheOthersAre) {
  FairShare share;
  auto &early = share.open("early", k_base);
  share.charge(early, 1000);
  share.admitted(*early.tenant, 1000, 1000);
  auto &late = share.open("late", k_base);
  EXPECT_EQ(share.counter_of(*late.tenant), 1000);
  share.charge(late, 1);
  EXPECT_EQ(share.counter_of(*late.tenant), 1001);
}

TEST(FairShare, GoingAwayPaysNoDebt) {
  FairShare share;
  auto &staying = share.open("staying", k_base);
  auto &leaving = share.open("leaving", k_base);
  share.charge(leaving, 1000);
  share.close(leaving);
  auto &again = share.open("leaving", k_base);
  EXPECT_EQ(share.counter_of(*again.tenant), 1000);
  EXPECT_EQ(FairShare::counter_of(again), 1000);
  EXPECT_EQ(share.counter_of(*staying.tenant), 0);
}

TEST(FairShare, OnceNobodyIsThereAllStartAnew) {
  FairShare share;
  auto &one = share.open("one", k_base);
  share.charge(one, 1000);
  share.close(one);
  EXPECT_EQ(share.n_tenants(), 0U);
  EXPECT_EQ(share.counter_of(*share.open("one", k_base).tenant), 0);
}

TEST(FairShare, WhoIsIdleAndNotAheadIsForgotten) {
  FairShare share;
  auto &staying = share.open("staying", k_base);
  share.close(share.open("idle", k_base));
  auto &ahead = share.open("ahead", k_base);
  share.charge(ahead, 10);
  share.close(ahead);
  (void)share.open("new", k_base);
  EXPECT_EQ(share.n_tenants(), 3U);
  share.admitted(*staying.tenant, 10, 0);
  (void)share.open("newer", k_base);
  EXPECT_EQ(share.n_tenants(), 3U) << "the others have caught up with the one ahead";
}

TEST(FairShare, HowManyAreRememberedIsBounded) {
  FairShare share;
  (void)share.open("staying", k_base);
  const auto visit = [&](const std::string &tenant, const AdapterKey &key, double cost) {
    auto &member = share.open(tenant, key);
    share.charge(member, cost);
    share.close(member);
  };
  for (size_t i = 0; i < FairShare::k_most_idle + 50; ++i)
    visit(std::to_string(i), k_base, 1 + static_cast<double>(i));
  EXPECT_LE(share.n_tenants(), FairShare::k_most_idle + 2);
  EXPECT_EQ(share.counter_of(*share.open(std::to_string(FairShare::k_most_idle), k_base).tenant),
            static_cast<double>(FairShare::k_most_idle) + 1)
      << "those that are far ahead are the last to be forgotten";
  auto &one = share.open("keys", k_base);
  for (size_t i = 0; i < FairShare::k_most_idle + 50; ++i) {
    const auto low = static_cast<unsigned char>(i % 256);
    const auto high = static_cast<unsigned char>(i / 256);
    visit("keys", {{low, high, 1}}, 1);
  }
  EXPECT_LE(one.tenant->members.size(), FairShare::k_most_idle + 2);
}

TEST(FairShare, DistancesStayWhenFloorsGrowLarge) {
  FairShare share({{"small", 0.001}});
  auto &small = share.open("small", k_base);
  auto &other = share.open("other", k_base);
  share.charge(small, 2e9);
  share.charge(other, 1);
  share.admitted(*small.tenant, 2e12 - 5, 2e9);
  EXPECT_EQ(share.counter_of(*small.tenant) - share.counter_of(*other.tenant), 5);
  EXPECT_LT(share.counter_of(*small.tenant), 10);
  EXPECT_EQ(FairShare::counter_of(small), 0);
}

}  // namespace
}  // namespace patchbay
