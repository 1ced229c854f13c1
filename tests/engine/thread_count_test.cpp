#include "engine/thread_count.h"

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <vector>

namespace patchbay {
namespace {

using namespace std::chrono_literals;
using Clock = ThreadCount::Clock;

/// Graphs of 4 ms on made-up time, of which each thread gets the part that `shares` says.
class Machine {
 public:
  explicit Machine(uint32_t n_threads) : count_(n_threads) {}

  /// `shares` by number of threads in use: what each of them gets.
  template <class Shares>
  void run(Clock::duration time, const Shares &shares) {
    for (const auto end = now_ + time; now_ < end;) {
      std::vector<Clock::duration> ran;
      for (const double share : shares(count_.n()))
        ran.push_back(std::chrono::duration_cast<Clock::duration>(share * k_graph));
      now_ += k_graph;
      n_graphs_with_all_ += count_.n() == k_most ? 1 : 0;
      count_.observe(now_, k_graph, ran);
    }
  }

  [[nodiscard]] uint32_t n() const { return count_.n(); }
  [[nodiscard]] int take_graphs_with_all() { return std::exchange(n_graphs_with_all_, 0); }

  static constexpr uint32_t k_most = 4;

 private:
  static constexpr auto k_graph = 4ms;

  ThreadCount count_;
  Clock::time_point now_{};
  int n_graphs_with_all_ = 0;
};

std::vector<double> undisturbed(uint32_t n) { return std::vector<double>(n, 0.97); }

/// One program beside us on a machine of four cores.
std::vector<double> one_neighbour(uint32_t n) {
  auto shares = undisturbed(n);
  if (n == Machine::k_most) shares.back() = 0.5;
  return shares;
}

std::vector<double> everywhere(uint32_t n) { return std::vector<double>(n, n > 1 ? 0.5 : 0.9); }

TEST(ThreadCount, StaysWhereNobodyDisturbs) {
  Machine machine(Machine::k_most);
  machine.run(10s, undisturbed);
  EXPECT_EQ(machine.n(), Machine::k_most);
  EXPECT_EQ(machine.take_graphs_with_all(), 2500);
}

TEST(ThreadCount, LeavesOutAsManyAsAreDisturbed) {
  Machine machine(Machine::k_most);
  machine.run(40ms, one_neighbour);
  EXPECT_EQ(machine.n(), 3U);
}

TEST(ThreadCount, GoesDownStepByStepWhereAllAreDisturbed) {
  Machine machine(Machine::k_most);
  machine.run(20ms, everywhere);
  EXPECT_EQ(machine.n(), 2U);
  machine.run(20ms, everywhere);
  EXPECT_EQ(machine.n(), 1U);
}

TEST(ThreadCount, TriesAllLessAndLessOften) {
  Machine machine(Machine::k_most);
  machine.run(10s, one_neighbour);
  EXPECT_LT(machine.take_graphs_with_all(), 50);
  machine.run(10s, one_neighbour);
  const int n_later = machine.take_graphs_with_all();
  EXPECT_LT(n_later, 25);
  EXPECT_GT(n_later, 0);
}

TEST(ThreadCount, ComesBackSoonAfterTheNeighbourHasGone) {
  Machine machine(Machine::k_most);
  machine.run(60s, one_neighbour);
  machine.run(3300ms, undisturbed);
  EXPECT_EQ(machine.n(), Machine::k_most);
  (void)machine.take_graphs_with_all();
  machine.run(10s, undisturbed);
  EXPECT_EQ(machine.take_graphs_with_all(), 2500);
}

TEST(ThreadCount, ForgetsHowLongTheLastNeighbourStayed) {
  Machine machine(Machine::k_most);
  machine.run(60s, one_neighbour);
  machine.run(10s, undisturbed);
  machine.run(40ms, one_neighbour);
  EXPECT_EQ(machine.n(), 3U);
  machine.run(100ms, undisturbed);
  EXPECT_EQ(machine.n(), Machine::k_most);
}

TEST(ThreadCount, TakesShortHoldUpsForWhatTheyAre) {
  Machine machine(Machine::k_most);
  for (int i = 0; i < 100; ++i) {
    machine.run(4ms, one_neighbour);
    machine.run(16ms, undisturbed);
  }
  EXPECT_EQ(machine.n(), Machine::k_most);
}

TEST(ThreadCount, IsOneForOne) {
  ThreadCount count(1);
  count.observe(Clock::time_point{} + 1s, 1s, std::vector<Clock::duration>{100ms});
  EXPECT_EQ(count.n(), 1U);
}

}  // namespace
}  // namespace patchbay
