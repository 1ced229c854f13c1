#include "graph/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace patchbay {
namespace {

/// How often each of `n` units is taken when `n_threads` threads empty the queue together.
std::vector<int> times_taken(WorkQueue &queue, int64_t n, int n_threads) {
  std::vector<std::atomic<int>> times(static_cast<size_t>(n));
  {
    std::vector<std::jthread> threads;
    for (int i_thread = 0; i_thread < n_threads; ++i_thread) {
      threads.emplace_back([&] {
        queue.work(n, n_threads, [&](int64_t first, int64_t last) {
          for (int64_t unit = first; unit < last; ++unit) ++times[static_cast<size_t>(unit)];
        });
      });
    }
  }
  return {times.begin(), times.end()};
}

TEST(WorkQueue, EveryUnitIsExactlyOneThreadsTimeAfterTime) {
  for (const int64_t n : {0, 1, 5, 64, 1000}) {
    for (const int64_t n_min : {1, 7, 2000}) {
      WorkQueue queue(n_min);
      // The number of threads may change from one time to the next.
      for (const int n_threads : {1, 4, 2, 7, 1, 3}) {
        EXPECT_EQ(times_taken(queue, n, n_threads), std::vector<int>(static_cast<size_t>(n), 1))
            << n << " units, " << n_min << " at a time, " << n_threads << " threads";
      }
    }
  }
}

TEST(WorkQueue, RunsAreOfSeveralUnitsAndGetShorterDownToTheLeast) {
  WorkQueue queue(3);
  std::vector<int64_t> lengths;
  queue.work(100, 1, [&](int64_t first, int64_t last) { lengths.push_back(last - first); });
  EXPECT_EQ(lengths.front(), 50);
  EXPECT_TRUE(std::ranges::is_sorted(lengths, std::greater<>()));
  lengths.pop_back();  // what is left
  EXPECT_EQ(lengths.back(), 3);
}

TEST(WorkQueue, AThreadThatIsHeldUpLeavesTheRestToTheOther) {
  WorkQueue queue(1);
  std::atomic<int64_t> n_slow = 0;
  std::atomic<int64_t> n_quick = 0;
  std::atomic<bool> slow_has_begun = false;
  {
    const std::jthread slow([&] {
      queue.work(100, 2, [&](int64_t first, int64_t last) {
        n_slow += last - first;
        slow_has_begun = true;
        slow_has_begun.notify_one();
        // Held up until all that is left has been done.
        int64_t done = n_quick.load();
        while (done + n_slow < 100) {
          n_quick.wait(done);
          done = n_quick.load();
        }
      });
    });
    slow_has_begun.wait(false);
    queue.work(100, 2, [&](int64_t first, int64_t last) {
      n_quick += last - first;
      n_quick.notify_one();
    });
  }
  EXPECT_EQ(n_slow, 25);  // its first run
  EXPECT_EQ(n_quick, 75);
}

}  // namespace
}  // namespace patchbay
