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

void EventQueue::notify() {
  const std::lock_guard lock(calling_);
  if (armed_) on_events_();
}

void EventQueue::disarm() {
  const std::lock_guard lock(calling_);
  armed_ = false;
}

std::optional<Event> EventQueue::take() {
  Event event = std::move(events_.front());
  events_.pop_front();
  ended_ = std::holds_alternative<RequestEnd>(event);
  if (ended_) arrived_.notify_all();
  return event;
}

std::optional<Event> EventQueue::next() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return ended_ || !events_.empty(); });
  return events_.empty() ? std::nullopt : take();
}

std::optional<Event> EventQueue::try_next() {
  const std::lock_guard lock(mutex_);
  return events_.empty() ? std::nullopt : take();
}

}  // namespace patchbay
