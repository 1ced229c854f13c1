#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace patchbay {

/// One thread's part of work that comes in units of known cost: a run of neighbouring units whose
/// cost is about total / n_threads. Every unit is exactly one thread's.
class WorkShare {
 public:
  WorkShare(int64_t total, int i_thread, int n_threads)
      : begin_(total * i_thread / n_threads), end_(total * (i_thread + 1) / n_threads) {}

  /// Of the next `n` units, which cost `cost` > 0 each, this thread's: [first, last).
  [[nodiscard]] std::pair<int64_t, int64_t> take(int64_t n, int64_t cost) {
    // A unit belongs to the thread in whose range it begins.
    const auto units_before = [&](int64_t border) {
      return std::clamp<int64_t>((border - at_ + cost - 1) / cost, 0, n);
    };
    const std::pair<int64_t, int64_t> mine{begin_ <= at_ ? 0 : units_before(begin_),
                                           end_ <= at_ ? 0 : units_before(end_)};
    at_ += n * cost;
    return mine;
  }

 private:
  int64_t begin_;
  int64_t end_;
  int64_t at_ = 0;
};

}  // namespace patchbay
