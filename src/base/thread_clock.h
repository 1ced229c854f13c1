#pragma once

#include <sys/types.h>

#include <chrono>
#include <ctime>

namespace patchbay {

/// How long a thread of this process has run on a processor. Any thread may ask, as long as that
/// one lives.
class ThreadClock {
 public:
  [[nodiscard]] static ThreadClock of_this_thread();

  /// The system's number of the thread.
  [[nodiscard]] pid_t thread_id() const { return thread_id_; }
  [[nodiscard]] std::chrono::nanoseconds now() const;

 private:
  ThreadClock(pid_t thread_id, clockid_t clock) : thread_id_(thread_id), clock_(clock) {}

  pid_t thread_id_;
  clockid_t clock_;
};

}  // namespace patchbay
