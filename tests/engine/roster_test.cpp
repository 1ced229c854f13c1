#include "engine/roster.h"

#include <gmock/gmock.h>

namespace patchbay {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

const Clock::time_point k_now{std::chrono::hours(1)};

std::shared_ptr<Job> job(uint64_t arrival, int32_t priority = 0, std::string tenant = "") {
  auto made = std::make_shared<Job>();
  made->arrival = arrival;
  made->submitted = k_now;
  made->request.prompt = {1};
  made->request.priority = priority;
  made->request.tenant = std::move(tenant);
  return made;
}

std::shared_ptr<Job> wearing(uint64_t arrival, unsigned char adapter) {
  auto made = job(arrival);
  auto worn = std::make_shared<Adapter>();
  worn->digest = {adapter};
  made->request.spans = {{0, {{worn, 1}}}};
  return made;
}

std::shared_ptr<Sequence> sequence_of(const std::shared_ptr<Job> &job) {
  return std::make_shared<Sequence>(job, 0, nullptr);
}

/// Admits whoever is next and charges it; the seat is given back at once.
std::shared_ptr<Job> serve(Roster &roster, double cost, Clock::time_point now = k_now) {
  auto next = roster.next(now).job;
  if (next == nullptr) return nullptr;
  roster.admit(next, now);
  roster.charge(*next, cost);
  return next;
}

TEST(Roster, TheHigherPriorityIsNextAndThenTheEarlierArrival) {
  Roster roster(2);
  const auto first = job(1);
  const auto second = job(2);
  const auto urgent = job(3, 1);
  for (const auto &one : {second, first, urgent}) roster.enqueue(one);
  for (const auto &expected : {urgent, first, second}) {
    EXPECT_EQ(roster.next(k_now).job, expected);
    EXPECT_TRUE(roster.leave_queue(expected));
    EXPECT_FALSE(roster.leave_queue(expected));
  }
  EXPECT_EQ(roster.next(k_now).job, nullptr);
}

TEST(Roster, TheTenantThatWasServedLeastIsNext) {
  Roster roster(2);
  const auto greedy = {job(1, 0, "greedy"), job(2, 0, "greedy"), job(3, 0, "greedy")};
  for (const auto &one : greedy) roster.enqueue(one);
  const auto modest = job(4, 0, "modest");
  roster.enqueue(modest);
  EXPECT_EQ(serve(roster, 10)->arrival, 1U);
  EXPECT_EQ(serve(roster, 10), modest);
  EXPECT_EQ(serve(roster, 10)->arrival, 2U);
}

TEST(Roster, WithinATenantWhatIsWornLeastIsNext) {
  Roster roster(2);
  for (uint64_t i = 1; i <= 3; ++i) roster.enqueue(wearing(i, 1));
  const auto other = wearing(4, 2);
  roster.enqueue(other);
  EXPECT_EQ(serve(roster, 10)->arrival, 1U);
  EXPECT_EQ(serve(roster, 10), other);
  EXPECT_EQ(serve(roster, 10)->arrival, 2U);
}

TEST(Roster, OfOneKindTheEarlierDeadlineIsNext) {
  Roster roster(2);
  const auto without = job(1);
  const auto late = job(2);
  const auto soon = job(3);
  late->request.deadline = k_now + seconds(9);
  soon->request.deadline = k_now + seconds(1);
  for (const auto &one : {without, late, soon}) roster.enqueue(one);
  for (const auto &expected : {soon, late, without}) EXPECT_EQ(serve(roster, 1), expected);
}

TEST(Roster, WhoHasWaitedGoesBeforeLaterDeadlines) {
  Roster roster(2, {.aging = seconds(5)});
  const auto without = job(1);
  roster.enqueue(without);
  for (uint64_t i = 2; i < 4; ++i) {
    const auto with = job(i);
    with->submitted = k_now + seconds(i);
    with->request.deadline = with->submitted + seconds(2);
    roster.enqueue(with);
  }
  EXPECT_EQ(serve(roster, 1)->arrival, 2U);
  const auto later = job(4);
  later->submitted = k_now + seconds(6);
  later->request.deadline = later->submitted + seconds(2);
  roster.enqueue(later);
  EXPECT_EQ(serve(roster, 1), without) << "it was due before those two";
}

TEST(Roster, WaitingRaisesAPriorityToTheHighestThatWaits) {
  Roster roster(2, {.aging = seconds(1)});
  const auto low = job(1, 0, "low");
  roster.enqueue(low);
  const auto urgent = [&](uint64_t arrival) {
    auto made = job(arrival, 2, "urgent");
    made->submitted = k_now + seconds(1);
    roster.enqueue(made);
    return made;
  };
  const auto first = urgent(2);
  EXPECT_EQ(serve(roster, 10, k_now + seconds(1)), first);
  (void)urgent(3);
  EXPECT_EQ(serve(roster, 10, k_now + seconds(2)), low);
  EXPECT_EQ(low->place, 2) << "or it would be the first to give its memory up";
}

TEST(Roster, ALongQueueDoesNotBuyPriority) {
  Roster roster(2, {.aging = seconds(1)});
  for (uint64_t i = 0; i < 9; ++i) roster.enqueue(job(i, 0, "greedy"));
  ASSERT_NE(serve(roster, 10), nullptr);
  const auto fresh = job(99, 0, "modest");
  fresh->submitted = k_now + seconds(60);
  roster.enqueue(fresh);
  EXPECT_EQ(serve(roster, 10, k_now + seconds(60)), fresh);
}

TEST(Roster, WithoutAgingALowPriorityWaits) {
  Roster roster(2);
  roster.enqueue(job(1));
  const auto urgent = job(2, 1);
  roster.enqueue(urgent);
  EXPECT_EQ(serve(roster, 1, k_now + std::chrono::hours(9)), urgent);
}

TEST(Roster, WhoGaveMemoryUpGoesBeforeTheQueueOfNoHigherPriority) {
  Roster roster(2);
  const auto preempted = sequence_of(job(1));
  roster.enqueue(preempted->shared_job());
  roster.admit(preempted->shared_job(), k_now);
  roster.seat(preempted);
  roster.unseat(*preempted);
  roster.enqueue(job(2, 0, "other"));
  roster.enqueue(job(0));
  EXPECT_EQ(roster.next(k_now).sequence, preempted);
  const auto urgent = job(3, 5);
  roster.enqueue(urgent);
  EXPECT_EQ(roster.next(k_now).sequence, nullptr);
  EXPECT_EQ(roster.next(k_now).job, urgent);
}

TEST(Roster, CachedPromptsAndResidentAdaptersGoFirst) {
  Roster roster(2);
  const auto first = job(1);
  const auto resident = job(2);
  const auto cached = job(3);
  resident->adapters_resident = true;
  cached->n_cached_estimate = 1;
  for (const auto &one : {first, resident, cached}) roster.enqueue(one);
  for (const auto &expected : {cached, resident, first}) EXPECT_EQ(serve(roster, 1), expected);
}

TEST(Roster, HitsPassARequestOfTheirOwnKindOverUpToTheSlackOnly) {
  constexpr double k_cost = 100;
  Roster roster(2);
  const auto passed = job(0);
  roster.enqueue(passed);
  double cost_before = 0;
  for (uint64_t arrival = 1; arrival < 1000; ++arrival) {
    const auto hit = job(arrival);
    hit->n_cached_estimate = 1;
    roster.enqueue(hit);
    if (serve(roster, k_cost) == passed) break;
    cost_before += k_cost;
  }
  EXPECT_GE(cost_before, k_preference_slack);
  EXPECT_LE(cost_before, k_preference_slack + k_cost);
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

TEST(Roster, SequencesStandInTheOrderInWhichTheyWereAdmitted) {
  Roster roster(3);
  const auto late = sequence_of(job(9));
  const auto early = sequence_of(job(2));
  const auto urgent = sequence_of(job(10, 1));
  for (const auto &one : {late, early, urgent}) {
    roster.enqueue(one->shared_job());
    roster.admit(one->shared_job(), k_now);
    roster.seat(one);
  }
  EXPECT_THAT(roster.sequences(), ElementsAre(urgent, late, early));
}

class CountedRoster : public testing::Test {
 protected:
  std::shared_ptr<Job> enqueue(uint64_t arrival, std::string tenant) {
    auto made = job(arrival, 0, std::move(tenant));
    made->services = services_.open(made->request);
    roster_.enqueue(made);
    return made;
  }
  std::shared_ptr<Sequence> seat(const std::shared_ptr<Job> &job) {
    roster_.admit(job, k_now);
    auto sequence = sequence_of(job);
    roster_.seat(sequence);
    return sequence;
  }
  [[nodiscard]] TenantStats tenant(const std::string &name) const {
    EngineStats stats;
    services_.copy_to(stats);
    return stats.tenants[name];
  }

  ServiceCounters services_;
  Roster roster_{3, {.tenant_weights = {{"b", 4}}}};
};

TEST_F(CountedRoster, CountsWhoWaitsAndWhoRuns) {
  enqueue(1, "a");
  const auto running = seat(enqueue(2, "b"));
  const auto preempted = seat(enqueue(3, "b"));
  roster_.unseat(*preempted);
  EXPECT_EQ(roster_.n_waiting(), 2U);
  EXPECT_EQ(roster_.n_seated(), 1U);
  EXPECT_EQ(tenant("a").n_queued, 1U);
  EXPECT_EQ(tenant("b").n_queued, 1U);
  EXPECT_EQ(tenant("b").n_running, 1U);
  roster_.seat(preempted);
  EXPECT_EQ(tenant("b").n_queued, 0U);
  EXPECT_EQ(tenant("b").n_running, 2U);
  for (const auto &one : {running, preempted}) {
    roster_.unseat(*one);
    roster_.remove(*one);
    roster_.remove(*one);
  }
  EXPECT_EQ(tenant("b").n_queued, 0U);
  EXPECT_EQ(tenant("b").n_running, 0U);
}

TEST_F(CountedRoster, ShowsWhatATenantWasCharged) {
  const auto heavy = enqueue(1, "b");
  roster_.charge(*heavy, 100);
  EXPECT_EQ(tenant("b").cost, 100);
  EXPECT_EQ(tenant("b").weight, 4);
  EXPECT_EQ(tenant("b").virtual_counter, 25);
}

}  // namespace
}  // namespace patchbay
