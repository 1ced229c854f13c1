#include "engine/yielding_barrier.h"

#include <sched.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace patchbay {
namespace {

/// Looks before a thread yields. A balanced node of a graph is over sooner; many more would burn a
/// good part of a time slice while the thread waited for cannot run.
constexpr int k_n_spins = 2000;

void pause() noexcept {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

}  // namespace

void YieldingBarrier::arrive_and_wait(uint32_t n_threads) noexcept {
  if (n_threads <= 1) return;
  // Cannot be stale: the round does not end before this thread has arrived.
  const uint32_t round = n_rounds_.load(std::memory_order_relaxed);
  // Each arrival takes over what the earlier ones have seen; ending the round passes all of it on.
  if (n_arrived_.fetch_add(1, std::memory_order_acq_rel) == n_threads - 1) {
    n_arrived_.store(0, std::memory_order_relaxed);
    n_rounds_.store(round + 1, std::memory_order_release);
  } else {
    wait_beyond(round);
  }
}

void YieldingBarrier::wait_beyond(uint32_t round) const noexcept {
  for (int i = 0; i < k_n_spins; ++i) {
    if (n_rounds_.load(std::memory_order_acquire) != round) return;
    pause();
  }
  while (n_rounds_.load(std::memory_order_acquire) == round) sched_yield();
}

}  // namespace patchbay
