#pragma once

#include <atomic>
#include <cstdint>

namespace patchbay {

/// Where threads that compute together wait for the slowest of them. Whoever waits long gives its
/// core away, since the thread that it waits for may need that very core.
class YieldingBarrier {
 public:
  /// Returns when `n_threads` threads are here; what each did before is then visible to all. Every
  /// thread of a round passes the same number.
  void arrive_and_wait(uint32_t n_threads) noexcept;

  /// Rounds that are over; wraps around.
  [[nodiscard]] uint32_t n_rounds() const noexcept {
    return n_rounds_.load(std::memory_order_relaxed);
  }

 private:
  void wait_beyond(uint32_t round) const noexcept;

  // Apart, so that arriving does not take the line away from those who wait on the other.
  static constexpr size_t k_cache_line = 64;
  alignas(k_cache_line) std::atomic<uint32_t> n_arrived_{0};
  alignas(k_cache_line) std::atomic<uint32_t> n_rounds_{0};
};

}  // namespace patchbay
