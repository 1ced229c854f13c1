#include "engine/thread_count.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace patchbay {
namespace {

using std::chrono::milliseconds;

/// Several of the system's time slices, or a thread that just had its turn looks undisturbed.
constexpr milliseconds k_window{20};

/// Waking up and meeting the others leave this much of a thread's time when nothing disturbs it.
constexpr double k_undisturbed = 0.85;

/// A try in vain costs about a window's length; with these, some percent of the time.
constexpr milliseconds k_first_pause{50};
constexpr milliseconds k_longest_pause{3200};

}  // namespace

void ThreadCount::observe(Clock::time_point end, Clock::duration took,
                          std::span<const Clock::duration> ran) {
  assert(ran.size() == n_);
  ran_.resize(n_);
  took_ += took;
  std::ranges::transform(ran, ran_, ran_.begin(), std::plus());
  if (took_ < k_window) return;
  judge(end);
  took_ = {};
  ran_.clear();
}

uint32_t ThreadCount::n_undisturbed() const {
  return static_cast<uint32_t>(std::ranges::count_if(ran_, [this](Clock::duration ran) {
    return static_cast<double>(ran.count()) >= k_undisturbed * static_cast<double>(took_.count());
  }));
}

void ThreadCount::judge(Clock::time_point now) {
  const uint32_t n_good = n_undisturbed();
  if (n_ == n_most_ && n_good == n_) {
    pause_ = {};
  } else if (n_ == n_most_) {
    pause_ = pause_ == Clock::duration{} ? k_first_pause
                                         : std::min<Clock::duration>(2 * pause_, k_longest_pause);
    next_try_ = now + pause_;
  } else if (now >= next_try_) {
    n_ = n_most_;
    return;
  }
  // Where each has a part of a core, half as many have more of it.
  if (n_good < n_) n_ = n_good > 0 ? n_good : std::max(1U, n_ / 2);
}

}  // namespace patchbay
