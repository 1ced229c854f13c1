#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace patchbay {

/// Calls that any thread wants the engine thread to make between two steps.
class CallQueue {
 public:
  using Call = std::function<void()>;

  /// False: the engine takes no more calls.
  [[nodiscard]] bool post(Call call) {
    const std::lock_guard lock(mutex_);
    if (!closed_) calls_.push_back(std::move(call));
    return !closed_;
  }

  /// Those that have come since the last time.
  [[nodiscard]] std::vector<Call> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }

  /// Forgets what is left, and refuses what comes.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    calls_.clear();
  }

 private:
  std::mutex mutex_;
  std::vector<Call> calls_;
  bool closed_ = false;
};

}  // namespace patchbay
