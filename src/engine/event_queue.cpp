#include "engine/event_queue.h"

namespace patchbay {

bool EventQueue::push(Event event) {
  bool was_empty = false;
  {
    const std::lock_guard lock(mutex_);
    was_empty = events_.empty();
    events_.push_back(std::move(event));
  }
  arrived_.notify_all();
  return was_empty && on_events_ != nullptr;
}

std::optional<Event> EventQueue::take() {
  Event event = std::move(events_.front());
  events_.pop_front();
  ended_ = std::holds_alternative<RequestEnd>(event);
  return event;
}

std::optional<Event> EventQueue::next() {
  std::unique_lock lock(mutex_);
  if (ended_) return std::nullopt;
  arrived_.wait(lock, [this] { return !events_.empty(); });
  return take();
}

std::optional<Event> EventQueue::try_next() {
  const std::lock_guard lock(mutex_);
  return events_.empty() ? std::nullopt : take();
}

}  // namespace patchbay
