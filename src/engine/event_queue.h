#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "patchbay/request.hpp"

namespace patchbay {

/// What the engine tells one request's caller, and the caller's wish to end it. Shared by both
/// sides; every function from any thread.
class EventQueue {
 public:
  explicit EventQueue(std::function<void()> on_events) : on_events_(std::move(on_events)) {}

  /// No call of on_events() begins after this, and one that is running has ended, unless it is the
  /// caller.
  void disarm();

  /// Returns whether on_events() is due: the queue was empty and somebody wants to be told.
  [[nodiscard]] bool push(Event event);
  void notify();

  /// Waits for an event; none once the RequestEnd was taken.
  [[nodiscard]] std::optional<Event> next();
  [[nodiscard]] std::optional<Event> try_next();

  void cancel() { cancelled_ = true; }
  [[nodiscard]] bool cancelled() const { return cancelled_; }

 private:
  [[nodiscard]] std::optional<Event> take();

  const std::function<void()> on_events_;
  std::recursive_mutex calling_;  // held during a call, which may disarm
  bool armed_ = true;             // guarded by calling_
  std::atomic<bool> cancelled_ = false;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Event> events_;
  bool ended_ = false;  // the RequestEnd was taken
};

}  // namespace patchbay
