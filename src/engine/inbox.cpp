#include "engine/inbox.h"

#include <utility>

namespace patchbay {

Inbox::Put Inbox::put(std::shared_ptr<Job> job) {
  const AdapterKey key = adapter_key_of(job->request);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return Put::closed;
    if (!has_room_for(job->request.tenant, key)) return Put::full;
    job->arrival = n_arrived_++;
    Waiting &waiting = waiting_of_[job->request.tenant];
    ++waiting.n;
    ++waiting.n_of[key];
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

bool Inbox::has_room_for(const std::string &tenant, const AdapterKey &key) const {
  if (n_waiting_ < n_most_) return true;
  // Whether one more is within the even part of `n_most` among all that wait.
  const auto fits = [](size_t n_now, size_t n_most, size_t n_others) {
    return n_now + 1 <= n_most / (n_others + (n_now == 0 ? 1 : 0));
  };
  const auto place = waiting_of_.find(tenant);
  const Waiting mine = place == waiting_of_.end() ? Waiting{} : place->second;
  if (fits(mine.n, n_most_, waiting_of_.size())) return true;
  const auto worn = mine.n_of.find(key);
  return fits(worn == mine.n_of.end() ? 0 : worn->second, n_most_ / waiting_of_.size(),
              mine.n_of.size());
}

void Inbox::left_queue(const Request &request) {
  const AdapterKey key = adapter_key_of(request);
  const std::lock_guard lock(mutex_);
  --n_waiting_;
  const auto place = waiting_of_.find(request.tenant);
  Waiting &waiting = place->second;
  if (--waiting.n_of.at(key) == 0) waiting.n_of.erase(key);
  if (--waiting.n == 0) waiting_of_.erase(place);
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
