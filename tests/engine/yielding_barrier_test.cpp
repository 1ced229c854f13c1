#include "engine/yielding_barrier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace patchbay {
namespace {

/// Runs `work(i)` in n threads and joins them.
template <class Work>
void in_threads(uint32_t n, const Work &work) {
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i < n; ++i) threads.emplace_back([&work, i] { work(i); });
}

// More threads than cores, so that those waited for are often not running.
constexpr uint32_t k_n_threads = 7;

TEST(YieldingBarrier, EachThreadSeesWhatAllOthersWroteBeforeIt) {
  constexpr uint32_t n_rounds = 500;
  YieldingBarrier barrier;
  // Plain memory: ThreadSanitizer reports it if the barrier does not order the accesses.
  std::vector<uint32_t> written(k_n_threads, 0);
  std::atomic<uint32_t> n_wrong = 0;
  in_threads(k_n_threads, [&](uint32_t i) {
    for (uint32_t round = 1; round <= n_rounds; ++round) {
      written[i] = round;
      barrier.arrive_and_wait(k_n_threads);
      for (const uint32_t seen : written) n_wrong += seen != round ? 1 : 0;
      barrier.arrive_and_wait(k_n_threads);
    }
  });
  EXPECT_EQ(n_wrong, 0U);
  EXPECT_EQ(barrier.n_rounds(), 2 * n_rounds);
}

TEST(YieldingBarrier, NobodyLeavesBeforeTheLastArrives) {
  YieldingBarrier barrier;
  std::atomic<uint32_t> n_left = 0;
  std::vector<std::jthread> threads;
  for (uint32_t i = 0; i + 1 < k_n_threads; ++i) {
    threads.emplace_back([&] {
      barrier.arrive_and_wait(k_n_threads);
      ++n_left;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(n_left, 0U);
  barrier.arrive_and_wait(k_n_threads);
  threads.clear();
  EXPECT_EQ(n_left, k_n_threads - 1);
}

TEST(YieldingBarrier, OneThreadDoesNotWait) {
  YieldingBarrier barrier;
  barrier.arrive_and_wait(1);
  EXPECT_EQ(barrier.n_rounds(), 0U);
}

TEST(YieldingBarrier, TheNumberOfThreadsMayChangeBetweenRounds) {
  YieldingBarrier barrier;
  for (const uint32_t n_threads : {4U, 2U, 7U, 3U}) {
    in_threads(n_threads, [&](uint32_t) { barrier.arrive_and_wait(n_threads); });
  }
  EXPECT_EQ(barrier.n_rounds(), 4U);
}

}  // namespace
}  // namespace patchbay
