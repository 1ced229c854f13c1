#include "engine/notifier.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace patchbay {

Notifier::Notifier() : thread_([this] { run(); }) {}

void Notifier::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Notifier::post(std::vector<std::shared_ptr<EventQueue>> &queues) {
  if (queues.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    std::ranges::move(queues, std::back_inserter(due_));
  }
  queues.clear();
  changed_.notify_one();
}

void Notifier::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !due_.empty(); });
    if (due_.empty()) return;
    const auto due = std::exchange(due_, {});
    lock.unlock();
    for (const auto &queue : due) queue->notify();
    lock.lock();
  }
}

}  // namespace patchbay
