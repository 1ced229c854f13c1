#include "engine/inbox.h"

#include <utility>

namespace patchbay {

Inbox::Put Inbox::put(std::shared_ptr<Job> job) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Put::closed;
    if (n_waiting_ >= n_most_) return Put::full;
    job->arrival = n_arrived_++;
    jobs_.push_back(std::move(job));
    ++n_waiting_;
  }
  changed_.notify_one();
  return Put::taken;
}

std::vector<std::shared_ptr<Job>> Inbox::take(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) changed_.wait(lock, [this] { return woken_ || closed_ || !jobs_.empty(); });
  woken_ = false;
  return std::exchange(jobs_, {});
}

void Inbox::left_queue() {
  const std::lock_guard lock(mutex_);
  --n_waiting_;
}

void Inbox::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void Inbox::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
}

bool Inbox::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

}  // namespace patchbay
