#pragma once

#include <ggml-cpu.h>

#include <cstdint>
#include <list>
#include <vector>

#include "base/cpu_affinity.h"
#include "base/thread_clock.h"
#include "engine/ggml_barrier.h"
#include "engine/thread_count.h"
#include "engine/threadpool_ptr.h"

namespace patchbay {

/// The threads that compute graphs: the calling thread and `n_threads` - 1 others, which sleep
/// between graphs. They stand other busy programs on the same cores: whoever waits for another
/// thread yields, threads that fill all allowed cores keep to one each while they compute, and
/// fewer of them compute while others keep some off their cores. One caller at a time.
class ComputeThreads {
 public:
  enum class Waiting {
    yielding,
    stock,  ///< ggml's own barrier, placement and polling, to measure against
  };

  /// Warns once per process when ggml's own barrier cannot be replaced.
  explicit ComputeThreads(uint32_t n_threads, Waiting waiting = Waiting::yielding);

  /// Computes a graph whose tensors are allocated. GGML_STATUS_ALLOC_FAILED when there is no memory
  /// for what its operations need beside their results.
  [[nodiscard]] ggml_status compute(ggml_cgraph *graph);

  /// How many compute the next graph.
  [[nodiscard]] uint32_t n_now() const { return count_.n(); }

 private:
  void place(ggml_threadpool_params &params, const std::vector<int> &cpus);
  void call_roll();
  [[nodiscard]] ggml_status run(ggml_cgraph *graph, ggml_cplan &plan);
  [[nodiscard]] std::vector<ThreadCount::Clock::duration> times_run(uint32_t n_threads) const;
  void move_workers();

  uint32_t n_threads_;
  ThreadCount count_;
  std::vector<int> callers_cpu_;          // where the calling thread computes; none: anywhere
  std::unique_ptr<PoolBarrier> barrier_;  // outlives the threads that wait in it
  threadpool_ptr pool_;
  std::vector<ThreadClock> workers_;  // all but the calling thread; none: nobody looks at the time
  std::list<AffinityScope> roaming_;  // the workers, while they may go to any core
  std::vector<int> allowed_cpus_;
  std::vector<uint8_t> work_;
};

}  // namespace patchbay
