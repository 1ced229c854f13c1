#include "graph/work_share.h"

#include <gtest/gtest.h>

#include <vector>

namespace patchbay {
namespace {

struct Item {
  int64_t n, cost;
};

/// How often each unit of each item is taken by all threads together, and the most work of one.
struct Taken {
  std::vector<std::vector<int>> times;
  int64_t most = 0;
  int64_t total = 0;
};

Taken share_out(const std::vector<Item> &items, int n_threads) {
  Taken taken;
  for (const auto &item : items) {
    taken.total += item.n * item.cost;
    taken.times.emplace_back(static_cast<size_t>(item.n));
  }
  for (int i_thread = 0; i_thread < n_threads; ++i_thread) {
    WorkShare share(taken.total, i_thread, n_threads);
    int64_t cost = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      const auto [first, last] = share.take(items[i].n, items[i].cost);
      for (int64_t unit = first; unit < last; ++unit) ++taken.times[i][static_cast<size_t>(unit)];
      cost += std::max<int64_t>(0, last - first) * items[i].cost;
    }
    taken.most = std::max(taken.most, cost);
  }
  return taken;
}

TEST(WorkShare, EveryUnitIsExactlyOneThreads) {
  const std::vector<Item> items{{5, 3}, {1, 100}, {0, 7}, {64, 1}, {3, 17}, {40, 2}};
  for (const int n_threads : {1, 2, 3, 7, 64, 500}) {
    for (const auto &times : share_out(items, n_threads).times) {
      for (const int n : times) EXPECT_EQ(n, 1) << n_threads << " threads";
    }
  }
}

TEST(WorkShare, NoThreadHasMoreThanItsShareAndOneUnit) {
  const std::vector<Item> items{{48, 4}, {16, 1}, {90, 4}};
  for (const int n_threads : {1, 2, 3, 8}) {
    const Taken taken = share_out(items, n_threads);
    EXPECT_LE(taken.most, taken.total / n_threads + 1 + 4) << n_threads;
  }
}

}  // namespace
}  // namespace patchbay
