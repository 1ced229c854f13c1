#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Watches a stream of text for stop strings, also across pieces. Text that may be the beginning of
/// one is held back until it is decided. One thread at a time.
class StopMatcher {
 public:
  explicit StopMatcher(std::vector<std::string> stops);

  /// The text that is now certain to come before any stop string.
  [[nodiscard]] std::string push(std::string_view text);

  /// The text held back, when no more will come.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace patchbay
