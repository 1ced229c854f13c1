#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace patchbay {

/// One line on stderr that shows how far something long has come; only on a terminal, only when it
/// takes a while, and gone when the object ends.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;
  ~ProgressBar();

  void show(size_t done, size_t all);

 private:
  std::string label_;
  bool is_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point next_;
};

}  // namespace patchbay
