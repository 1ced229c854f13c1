#pragma once

#include <ggml-cpu.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "engine/yielding_barrier.h"

namespace patchbay {

/// ggml's threads meet in the function `ggml_barrier` after every node of a graph, and there they
/// spin without ever giving their core away: two of them on one core take a time slice per node.
/// This program defines that function anew, and the dynamic linker gives ggml ours. It serves the
/// pools that have a PoolBarrier; all others still get ggml's own.

/// The barrier of one pool of threads, used by ggml while this object lives. Made while the pool
/// computes nothing, destroyed after the pool, whose threads leave the barrier after the caller.
class PoolBarrier {
 public:
  explicit PoolBarrier(const ggml_threadpool *pool);
  ~PoolBarrier();
  PoolBarrier(const PoolBarrier &) = delete;
  PoolBarrier &operator=(const PoolBarrier &) = delete;

  /// How many of the pool's threads compute the graph that comes next; between graphs only.
  void set_n_threads(uint32_t n_threads) noexcept {
    n_threads_.store(n_threads, std::memory_order_release);
  }
  /// For the pool's threads.
  void arrive_and_wait() noexcept {
    barrier_.arrive_and_wait(n_threads_.load(std::memory_order_acquire));
  }
  [[nodiscard]] uint32_t n_rounds() const noexcept { return barrier_.n_rounds(); }

 private:
  std::atomic<uint32_t> n_threads_{1};
  YieldingBarrier barrier_;
};

/// Whether ggml meets in ours, found out once per process by computing a tiny graph. False where
/// ggml is linked statically, was bound to its own function before this library was loaded, or is
/// built with OpenMP, which decides itself how many threads come. Any thread.
[[nodiscard]] bool ggml_uses_our_barrier();

}  // namespace patchbay
