#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <tuple>
#include <utility>

namespace patchbay {

/// Units of a node's work, of about equal cost, handed to its threads while they run: a thread that
/// the system holds up takes fewer of them and does not delay the others by its whole share. Runs
/// of units get shorter towards the end (guided self-scheduling, Polychronopoulos and Kuck 1987).
class WorkQueue {
 public:
  /// `n_min`: units that are handed out at a time, at least.
  explicit WorkQueue(int64_t n_min) : n_min_(n_min) {}
  WorkQueue(const WorkQueue &) = delete;
  WorkQueue &operator=(const WorkQueue &) = delete;

  /// Calls run(first, last) for runs of `n` units until none is left. Each unit is exactly one
  /// thread's. All of `n_threads` threads have to come, with the same numbers; when they have, the
  /// queue is ready for the next time that the node runs.
  template <class Run>
  void work(int64_t n, int n_threads, const Run &run) {
    for (auto [first, last] = take(n, n_threads); first < last;
         std::tie(first, last) = take(n, n_threads))
      run(first, last);
    if (n_left_.fetch_add(1, std::memory_order_acq_rel) + 1 < n_threads) return;
    next_.store(0, std::memory_order_relaxed);
    n_left_.store(0, std::memory_order_relaxed);
  }

 private:
  [[nodiscard]] std::pair<int64_t, int64_t> take(int64_t n, int n_threads) {
    int64_t first = next_.load(std::memory_order_relaxed);
    while (first < n) {
      const int64_t share = (n - first) / (int64_t{2} * n_threads);
      const int64_t last = std::min(n, first + std::max(share, n_min_));
      if (next_.compare_exchange_weak(first, last, std::memory_order_relaxed)) return {first, last};
    }
    return {n, n};
  }

  int64_t n_min_;
  std::atomic<int64_t> next_ = 0;
  std::atomic<int> n_left_ = 0;  // threads that found the queue empty
};

}  // namespace patchbay
