#include "engine/inbox.h"

#include <gmock/gmock.h>

#include <thread>

namespace patchbay {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

TEST(Inbox, CountsARequestUntilItLeavesTheQueue) {
  Inbox inbox(2);
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::taken);
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::taken);
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::full);
  EXPECT_THAT(inbox.take(false), SizeIs(2));
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::full);
  inbox.left_queue({});
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::taken);
}

TEST(Inbox, AFullQueueTakesATenantsEvenPartOfIt) {
  Inbox inbox(4);
  const auto put = [&](const char *tenant) {
    auto job = std::make_shared<Job>();
    job->request.tenant = tenant;
    return inbox.put(std::move(job));
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(put("greedy"), Inbox::Put::taken);
  EXPECT_EQ(put("greedy"), Inbox::Put::full);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(put("small"), Inbox::Put::taken);
  EXPECT_EQ(put("small"), Inbox::Put::full);
  EXPECT_EQ(put("third"), Inbox::Put::taken);
  EXPECT_EQ(put("third"), Inbox::Put::full);
  for (int i = 0; i < 3; ++i) inbox.left_queue({.tenant = "greedy"});
  EXPECT_EQ(put("greedy"), Inbox::Put::full);
  inbox.left_queue({.tenant = "greedy"});
  EXPECT_EQ(put("greedy"), Inbox::Put::taken);
}

TEST(Inbox, AndOfATenantsPartWhatIsWornItsEvenPart) {
  Inbox inbox(4);
  const auto job_wearing = [&](unsigned char digest) {
    auto adapter = std::make_shared<Adapter>();
    adapter->digest = {digest};
    auto job = std::make_shared<Job>();
    job->request.spans = {{0, {{std::move(adapter), 1}}}};
    return job;
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(inbox.put(job_wearing(1)), Inbox::Put::taken);
  EXPECT_EQ(inbox.put(job_wearing(1)), Inbox::Put::full);
  EXPECT_EQ(inbox.put(job_wearing(2)), Inbox::Put::taken);
  EXPECT_EQ(inbox.put(job_wearing(2)), Inbox::Put::taken);
  EXPECT_EQ(inbox.put(job_wearing(2)), Inbox::Put::full);
  for (int i = 0; i < 4; ++i) inbox.left_queue(job_wearing(1)->request);
  EXPECT_EQ(inbox.put(job_wearing(2)), Inbox::Put::taken);
}

TEST(Inbox, StampsTheOrderOfArrival) {
  Inbox inbox(3);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::taken);
  const auto jobs = inbox.take(false);
  EXPECT_LT(jobs[0]->arrival, jobs[1]->arrival);
  EXPECT_LT(jobs[1]->arrival, jobs[2]->arrival);
}

TEST(Inbox, ASleeperWakesForARequestACallAndTheEnd) {
  Inbox inbox(4);
  for (const auto &wake : std::vector<std::function<void()>>{
           [&] { ASSERT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::taken); },
           [&] { inbox.wake(); }, [&] { inbox.close(); }}) {
    std::thread waker(wake);
    (void)inbox.take(/*wait=*/true);
    waker.join();
  }
  EXPECT_TRUE(inbox.closed());
  EXPECT_EQ(inbox.put(std::make_shared<Job>()), Inbox::Put::closed);
}

TEST(Inbox, ACallBeforeTheSleepIsNotLost) {
  Inbox inbox(1);
  inbox.wake();
  EXPECT_THAT(inbox.take(/*wait=*/true), IsEmpty());
}

}  // namespace
}  // namespace patchbay
