#pragma once

#include <mutex>
#include <string>
#include <utility>

namespace patchbay {

/// When a value was last seen to differ from the time before. Any thread.
class ChangeClock {
 public:
  /// The time of the last change, which is `now` if the value is new.
  double note(std::string value, double now) {
    const std::lock_guard lock(mutex_);
    if (changed_at_ == 0 || value != value_) changed_at_ = now;
    value_ = std::move(value);
    return changed_at_;
  }

 private:
  std::mutex mutex_;
  std::string value_;
  double changed_at_ = 0;
};

}  // namespace patchbay
