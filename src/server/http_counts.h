#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace patchbay {

/// What HTTP requests are counted by; few of each: the route's pattern stands for its paths.
struct HttpCountKey {
  std::string method{};
  std::string route{};
  unsigned status = 0;

  auto operator<=>(const HttpCountKey &) const = default;
};

/// How many requests had which answer. Any thread.
class HttpCounts {
 public:
  void add(HttpCountKey key) {
    const std::lock_guard lock(mutex_);
    ++counts_[std::move(key)];
  }
  [[nodiscard]] std::vector<std::pair<HttpCountKey, uint64_t>> list() const {
    const std::lock_guard lock(mutex_);
    return {counts_.begin(), counts_.end()};
  }

 private:
  mutable std::mutex mutex_;
  std::map<HttpCountKey, uint64_t> counts_;
};

}  // namespace patchbay
