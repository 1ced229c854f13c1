#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace patchbay {
namespace {

/// Length of the longest end of `text` that begins `stop` without being all of it.
size_t open_end(std::string_view text, std::string_view stop) {
  for (size_t n = std::min(text.size(), stop.size() - 1); n > 0; --n) {
    if (text.ends_with(stop.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string &stop) { return stop.empty(); });
}

std::string StopMatcher::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  size_t open = 0;
  for (const auto &stop : stops_) {
    first = std::min(first, held_.find(stop));
    open = std::max(open, open_end(held_, stop));
  }
  // The first stop string to be complete ends the text, even behind the open beginning of another
  // one.
  stopped_ = first != std::string::npos;
  const size_t n_certain = stopped_ ? first : held_.size() - open;
  std::string certain = held_.substr(0, n_certain);
  held_.erase(0, stopped_ ? std::string::npos : n_certain);
  return certain;
}

std::string StopMatcher::finish() { return std::exchange(held_, {}); }

}  // namespace patchbay
