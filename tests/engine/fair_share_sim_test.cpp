// Five minutes of an engine that is asked for more than it can do, on simulated time.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/engine_simulation.h"

namespace patchbay {
namespace {

constexpr double k_seconds = 300;
using Sim = EngineSimulation;

/// Jain's index: 1 when all are equal, 1/n when one has everything.
double jain_index(const std::vector<double> &values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  const double squares = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
  return sum * sum / (static_cast<double>(values.size()) * squares);
}

/// What each should get of `total`, max-min fair: nobody more than it wants, and who gets less than
/// that as much per weight as anyone.
std::vector<double> max_min_shares(const std::vector<double> &wanted,
                                   const std::vector<double> &weights, double total) {
  std::vector<double> shares(wanted.size(), 0);
  std::vector<bool> satisfied(wanted.size(), false);
  while (true) {
    double left = total;
    double weight = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (satisfied[i]) left -= wanted[i];
      if (!satisfied[i]) weight += weights[i];
    }
    bool changed = false;
    for (size_t i = 0; i < wanted.size(); ++i) {
      if (satisfied[i]) continue;
      shares[i] = left * weights[i] / weight;
      if (wanted[i] > shares[i]) continue;
      satisfied[i] = changed = true;
      shares[i] = wanted[i];
    }
    if (!changed) return shares;
  }
}

/// Jain's index of what each got of its share.
double fairness(const std::vector<Served> &served, const std::vector<double> &weights) {
  std::vector<double> wanted;
  double total = 0;
  for (const Served &one : served) {
    wanted.push_back(one.offered);
    total += one.cost;
  }
  const auto shares = max_min_shares(wanted, weights, total);
  std::vector<double> parts;
  for (size_t i = 0; i < served.size(); ++i) parts.push_back(served[i].cost / shares[i]);
  return jain_index(parts);
}

double fairness(const std::vector<Served> &served) {
  return fairness(served, std::vector<double>(served.size(), 1));
}

/// The longest that a tenant with one request at a time waits beside `n_others` of its weight, in
/// seconds: derived in docs/decisions/0010-fair-sharing.md.
double worst_wait_s(size_t n_others, double slack = 0) {
  constexpr double k_answer = k_drawn_token_cost * Sim::k_most_out;
  constexpr double k_request = k_prompt_token_cost * Sim::k_most_prompt + k_answer;
  constexpr double k_n_seats = Sim::k_n_seats;
  const double ahead = slack + k_request;
  const double each = ahead + slack + k_request + (k_n_seats - 1) * k_answer;
  const double cost = k_n_seats * k_request + static_cast<double>(n_others) * each;
  const double ms_per_cost = Sim::k_row_ms + Sim::k_step_ms / k_n_seats;
  return cost * ms_per_cost / 1000;
}

std::vector<Sender> greedy_and_small(double greedy_rate, double small_rate) {
  std::vector<Sender> senders{{.tenant = "greedy", .rate = greedy_rate}};
  for (int i = 0; i < 20; ++i) {
    senders.push_back(
        {.tenant = fmt::format("small {}", i), .rate = small_rate, .one_at_a_time = true});
  }
  return senders;
}

double part_of_traffic(const std::vector<Served> &served, size_t i) {
  double all = 0;
  for (const Served &one : served) all += one.offered;
  return served[i].offered / all;
}

TEST(FairShareSimulation, AGreedyTenantTakesNothingFromTwentySmallOnes) {
  Sim sim(greedy_and_small(18, 0.1));
  const auto served = sim.run(k_seconds);
  EXPECT_GT(part_of_traffic(served, 0), 0.9);
  EXPECT_GT(served[0].n_refused, 1000U) << "it asked for far more than there is";
  EXPECT_GE(fairness(served), 0.95);
  for (size_t i = 1; i < served.size(); ++i) {
    EXPECT_EQ(served[i].n_refused, 0U) << i;
    EXPECT_GT(served[i].n_done, 10U) << i;
    EXPECT_LE(served[i].worst_wait_s, worst_wait_s(20)) << i;
  }
}

TEST(FairShareSimulation, WhenAllWantMoreThanTheirPartAllGetIt) {
  auto senders = greedy_and_small(400, 2);
  for (Sender &sender : senders) sender.one_at_a_time = false;
  Sim sim(senders);
  const auto served = sim.run(k_seconds);
  EXPECT_GT(part_of_traffic(served, 0), 0.9);
  EXPECT_GE(fairness(served), 0.95);
}

TEST(FairShareSimulation, WeightsAreTheProportionsInWhichTenantsAreServed) {
  Sim sim({{.tenant = "one", .rate = 10},
           {.tenant = "two", .rate = 10},
           {.tenant = "four", .rate = 10}},
          {.tenant_weights = {{"two", 2}, {"four", 4}}});
  const auto served = sim.run(k_seconds);
  EXPECT_GE(fairness(served, {1, 2, 4}), 0.999);
  EXPECT_NEAR(served[2].cost / served[0].cost, 4, 0.1);
}

TEST(FairShareSimulation, AGreedyAdapterTakesNothingFromTheTenantsOthers) {
  std::vector<Sender> senders{{.tenant = "t", .rate = 18, .n_rank = 16}};
  for (unsigned char i = 0; i < 5; ++i) {
    senders.push_back({.tenant = "t",
                       .rate = 0.4,
                       .one_at_a_time = true,
                       .n_rank = 16,
                       .adapter = static_cast<unsigned char>(2 + i)});
  }
  Sim sim(senders);
  const auto served = sim.run(k_seconds);
  EXPECT_GE(fairness(served), 0.95);
  for (size_t i = 1; i < served.size(); ++i) {
    EXPECT_EQ(served[i].n_refused, 0U) << i;
    EXPECT_LE(served[i].worst_wait_s, 1.25 * worst_wait_s(5)) << i << ", all of rank 16";
  }
}

TEST(FairShareSimulation, WhoComesLateGetsItsPartAndNothingForTheTimeBefore) {
  Sim sim(
      {{.tenant = "early", .rate = 12}, {.tenant = "late", .rate = 12, .start_s = k_seconds / 2}});
  const auto served = sim.run(k_seconds);
  EXPECT_NEAR(served[1].cost / served[0].cost, 1.0 / 3, 0.02);
}

TEST(FairShareSimulation, AHighRankGetsFewerTokensForTheSameShare) {
  Sim sim({{.tenant = "low", .rate = 10, .n_rank = 8, .adapter = 1},
           {.tenant = "high", .rate = 10, .n_rank = 64, .adapter = 2}});
  const auto served = sim.run(k_seconds);
  EXPECT_GE(fairness(served), 0.999);
  const auto n_low = static_cast<double>(served[0].n_tokens_out);
  EXPECT_NEAR(n_low / static_cast<double>(served[1].n_tokens_out), 2 / 1.125, 0.1);
}

TEST(FairShareSimulation, HitsGoFirstButKeepNobodyWaitingBeyondTheSlack) {
  auto senders = greedy_and_small(40, 0.1);
  senders[0].cached_share = 1;
  Sim sim(senders);
  const auto served = sim.run(k_seconds);
  EXPECT_GE(fairness(served), 0.95);
  Sim without(greedy_and_small(40, 0.1));
  double worst_without = 0;
  for (const Served &one : std::span(without.run(k_seconds)).subspan(1))
    worst_without = std::max(worst_without, one.worst_wait_s);
  double worst = 0;
  for (const Served &one : std::span(served).subspan(1)) {
    EXPECT_EQ(one.n_refused, 0U);
    worst = std::max(worst, one.worst_wait_s);
  }
  EXPECT_LE(worst, worst_wait_s(20, k_preference_slack));
  EXPECT_GT(worst, worst_without) << "the preference did nothing";
}

TEST(FairShareSimulation, AMixOfHitsFromManyStarvesNobody) {
  // Each tenant's requests hit more than those of all before it, all the time.
  std::vector<Sender> senders;
  for (int i = 0; i < 10; ++i) {
    senders.push_back(
        {.tenant = fmt::format("{}", i), .rate = 10, .cached_share = 0.1F * static_cast<float>(i)});
  }
  Sim sim(senders);
  EXPECT_GE(fairness(sim.run(k_seconds)), 0.95);
}

TEST(FairShareSimulation, AgingServesALowPriorityInTheEnd) {
  const std::vector<Sender> senders{
      {.tenant = "urgent", .rate = 20, .priority = 1},
      {.tenant = "low", .rate = 0.2, .one_at_a_time = true},
  };
  constexpr std::chrono::seconds k_aging(10);
  Sim aging(senders, {.aging = k_aging});
  const auto served = aging.run(k_seconds);
  EXPECT_GT(served[1].n_done, 10U);
  EXPECT_GT(served[1].worst_wait_s, 10);
  EXPECT_LE(served[1].worst_wait_s, 10 + worst_wait_s(1));
  Sim strict(senders);
  EXPECT_EQ(strict.run(k_seconds)[1].n_done, 0U);
}

}  // namespace
}  // namespace patchbay
