#pragma once

#include <condition_variable>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/job.h"
#include "engine/worn_adapters.h"

namespace patchbay {

/// The way into the engine thread: new requests, and calls to look up from its sleep. It counts
/// requests from submission to admission and takes `n_most`. When that many wait it still takes
/// those of a tenant with less than its even part of the queue, and those that wear what has less
/// than its even part of the tenant's; for these the engine gives others up. So who fills the queue
/// keeps nobody out, and never three times as many wait. Every function from any thread.
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
  void left_queue(const Request &request);

  void wake();
  void close();
  [[nodiscard]] bool closed() const;

 private:
  struct Waiting {
    size_t n = 0;
    std::map<AdapterKey, size_t> n_of;  // what is worn by any
  };

  [[nodiscard]] bool has_room_for(const std::string &tenant, const AdapterKey &key) const;

  const size_t n_most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Job>> jobs_;
  size_t n_waiting_ = 0;                       // taken ones that have not left the queue included
  std::map<std::string, Waiting> waiting_of_;  // by tenant, those with any
  uint64_t n_arrived_ = 0;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace patchbay
