#include "engine/roster.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using testing::ElementsAre;

std::shared_ptr<Job> job(uint64_t arrival, int32_t priority = 0, std::string tenant = "") {
  auto made = std::make_shared<Job>();
  made->arrival = arrival;
  made->request.prompt = {1};
  made->request.priority = priority;
  made->request.tenant = std::move(tenant);
  return made;
}

std::shared_ptr<Sequence> sequence_of(const std::shared_ptr<Job> &job) {
  return std::make_shared<Sequence>(job, 0, nullptr);
}

TEST(Roster, TheHigherPriorityIsNextAndThenTheEarlierArrival) {
  Roster roster(2);
  const auto first = job(1);
  const auto second = job(2);
  const auto urgent = job(3, 1);
  for (const auto &one : {second, first, urgent}) roster.enqueue(one);
  for (const auto &expected : {urgent, first, second}) {
    EXPECT_EQ(roster.next().job, expected);
    EXPECT_TRUE(roster.leave_queue(expected));
    EXPECT_FALSE(roster.leave_queue(expected));
  }
  EXPECT_EQ(roster.next().job, nullptr);
}

TEST(Roster, WhoGaveMemoryUpGoesBeforeLaterArrivalsOfNoHigherPriority) {
  Roster roster(2);
  const auto preempted = sequence_of(job(1));
  roster.seat(preempted);
  roster.unseat(*preempted);
  roster.enqueue(job(2));
  EXPECT_EQ(roster.next().sequence, preempted);
  const auto urgent = job(3, 5);
  roster.enqueue(urgent);
  EXPECT_EQ(roster.next().sequence, nullptr);
  EXPECT_EQ(roster.next().job, urgent);
}

TEST(Roster, SeatsComeBackWhicheverWayTheyWereTaken) {
  Roster roster(3);
  const auto one = job(1);
  const auto first = sequence_of(one);
  roster.seat(first);
  roster.keep_spare_seats(*one, 2);
  EXPECT_EQ(roster.n_free_seats(), 0U);
  const auto second = sequence_of(one);
  roster.seat_in_spare(second, 1);
  EXPECT_EQ(second->n_computed(), 1U);
  EXPECT_EQ(roster.n_seated(), 2U);
  EXPECT_NE(first->seq_id(), second->seq_id());
  roster.free_spare_seats(*one);
  EXPECT_EQ(roster.n_free_seats(), 1U);
  for (const auto &sequence : {first, second}) {
    roster.unseat(*sequence);
    roster.remove(*sequence);
  }
  EXPECT_EQ(roster.n_free_seats(), 3U);
  EXPECT_TRUE(roster.sequences().empty());
}

TEST(Roster, SequencesStandInTheOrderInWhichTheyAreServed) {
  Roster roster(3);
  const auto late = sequence_of(job(9));
  const auto early = sequence_of(job(2));
  const auto urgent = sequence_of(job(10, 1));
  for (const auto &one : {late, early, urgent}) roster.seat(one);
  EXPECT_THAT(roster.sequences(), ElementsAre(urgent, early, late));
}

TEST(Roster, CountsByTenant) {
  Roster roster(2);
  roster.enqueue(job(1, 0, "a"));
  roster.seat(sequence_of(job(2, 0, "b")));
  const auto preempted = sequence_of(job(3, 0, "b"));
  roster.seat(preempted);
  roster.unseat(*preempted);
  EngineStats stats;
  roster.count(stats);
  EXPECT_EQ(stats.n_queued, 2U);
  EXPECT_EQ(stats.n_running, 1U);
  EXPECT_EQ(stats.tenants["a"].n_queued, 1U);
  EXPECT_EQ(stats.tenants["b"].n_queued, 1U);
  EXPECT_EQ(stats.tenants["b"].n_running, 1U);
}

}  // namespace
}  // namespace patchbay
