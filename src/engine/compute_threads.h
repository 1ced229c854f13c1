#pragma once

#include <ggml-cpu.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/ggml_barrier.h"
#include "engine/threadpool_ptr.h"

namespace patchbay {

/// The threads that compute graphs: the calling thread and `n_threads` - 1 others, which sleep
/// between graphs. They stand other busy programs on the same cores: whoever waits for another
/// thread yields, and threads that fill all allowed cores keep to one each while they compute.
/// One caller at a time.
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

 private:
  void place(ggml_threadpool_params &params, const std::vector<int> &cpus);

  uint32_t n_threads_;
  std::optional<int> callers_cpu_;        // where the calling thread computes; none: anywhere
  std::unique_ptr<PoolBarrier> barrier_;  // outlives the threads that wait in it
  threadpool_ptr pool_;
  std::vector<uint8_t> work_;
};

}  // namespace patchbay
