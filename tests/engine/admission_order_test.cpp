#include "engine/admission_order.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace patchbay {
namespace {

using Time = std::chrono::steady_clock::time_point;
using std::chrono::seconds;

/// Addresses that stand for tenants and members.
constexpr std::array<char, 4> k_who{};

Candidate of_tenant(size_t i, double counter) {
  return {.tenant = &k_who.at(i), .member = &k_who.at(i), .tenant_counter = counter};
}

TEST(ChooseNext, TheLeastTenantThenItsLeastMemberThenTheFirstInLine) {
  std::vector<Candidate> candidates{of_tenant(0, 5), of_tenant(1, 4), of_tenant(1, 4),
                                    of_tenant(1, 4), of_tenant(1, 4)};
  candidates[0].member_counter = 0;
  candidates[1].member_counter = 9;
  for (const size_t i : {2U, 3U, 4U}) {
    candidates[i].member = &k_who.at(3);
    candidates[i].member_counter = 7;
    candidates[i].arrival = 10 - i;
    candidates[i].due = Time(seconds(i == 2 ? 9 : 1));
  }
  EXPECT_EQ(choose_next(candidates), 4U);
}

TEST(ChooseNext, MembersOfDifferentTenantsCompareByTheirLeadAtHome) {
  std::vector<Candidate> candidates{of_tenant(0, 1), of_tenant(1, 1)};
  candidates[0].member_counter = 1000;
  candidates[1].member_counter = 3;
  candidates[1].arrival = 1;
  EXPECT_EQ(choose_next(candidates), 0U);
}

TEST(ChooseNext, CachedGoesFirstWithinTheSlackOfTenants) {
  std::vector<Candidate> candidates{of_tenant(0, 0), of_tenant(1, 100)};
  candidates[1].cached_share = 0.9F;
  EXPECT_EQ(choose_next(candidates, 100), 1U);
  EXPECT_EQ(choose_next(candidates, 99), 0U);
  candidates[1].tenant_weight = 2;
  EXPECT_EQ(choose_next(candidates, 100), 0U) << "the slack is what was served, not the counter";
}

TEST(ChooseNext, CachedGoesFirstWithinTheSlackOfMembers) {
  std::vector<Candidate> candidates{of_tenant(0, 0), of_tenant(0, 0)};
  candidates[1].member = &k_who.at(1);
  candidates[1].member_counter = 100;
  candidates[1].cached_share = 0.9F;
  EXPECT_EQ(choose_next(candidates, 100), 1U);
  EXPECT_EQ(choose_next(candidates, 99), 0U);
}

TEST(ChooseNext, WhoWasPassedOverLongEnoughMakesItsLineWait) {
  std::vector<Candidate> candidates{of_tenant(0, 0), of_tenant(0, 0)};
  candidates[1].arrival = 1;
  candidates[1].cached_share = 1;
  EXPECT_EQ(choose_next(candidates, 100), 1U);
  candidates[0].passed_over = 100;
  EXPECT_EQ(choose_next(candidates, 100), 0U);
}

TEST(ChooseNext, MoreCachedBeatsResidentAndThatBeatsTurns) {
  std::vector<Candidate> candidates{of_tenant(0, 0), of_tenant(1, 5), of_tenant(2, 9)};
  candidates[1].is_resident = true;
  EXPECT_EQ(choose_next(candidates), 1U);
  candidates[2].cached_share = 0.1F;
  EXPECT_EQ(choose_next(candidates), 2U);
  candidates[0].cached_share = 0.2F;
  EXPECT_EQ(choose_next(candidates), 0U);
}

}  // namespace
}  // namespace patchbay
