#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/job.h"

namespace patchbay {

/// The way into the engine thread: new requests, and calls to look up from its sleep. Bounded: it
/// counts requests from submission to admission. Every function from any thread.
class Inbox {
 public:
  explicit Inbox(size_t n_most) : n_most_(n_most) {}

  enum class Put { taken, full, closed };

  /// Stamps the job's order of arrival.
  [[nodiscard]] Put put(std::shared_ptr<Job> job);

  /// Everything that has come since the last call; with `wait`, sleeps until something comes or
  /// wake() or close() is called.
  [[nodiscard]] std::vector<std::shared_ptr<Job>> take(bool wait);

  /// A request that was taken waits no longer.
  void left_queue();

  void wake();
  void close();
  [[nodiscard]] bool closed() const;

 private:
  const size_t n_most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Job>> jobs_;
  size_t n_waiting_ = 0;  // taken ones that have not left the queue included
  uint64_t n_arrived_ = 0;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace patchbay
