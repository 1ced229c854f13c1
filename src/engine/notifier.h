#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/event_queue.h"

namespace patchbay {

/// Calls callers' on_events() on a thread of its own, so that none of them can block the engine.
class Notifier {
 public:
  Notifier();
  ~Notifier() { stop(); }
  Notifier(const Notifier &) = delete;
  Notifier &operator=(const Notifier &) = delete;

  /// Any thread; returns at once, and leaves `queues` empty.
  void post(std::vector<std::shared_ptr<EventQueue>> &queues);

  /// Makes the calls that are still due, then ends; what is posted later is not called.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<EventQueue>> due_;
  bool closing_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace patchbay
