#include "apps/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace patchbay {
namespace {

constexpr std::chrono::milliseconds k_quiet_start{300};
constexpr std::chrono::milliseconds k_interval{50};
constexpr size_t k_width = 30;

}  // namespace

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      is_terminal_(isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now() + k_quiet_start) {}

ProgressBar::~ProgressBar() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::show(size_t done, size_t all) {
  const auto now = std::chrono::steady_clock::now();
  if (!is_terminal_ || all == 0 || now < next_) return;
  next_ = now + k_interval;
  shown_ = true;
  const size_t n_full = std::min(k_width, k_width * done / all);
  fmt::print(stderr, "\r{} [{:=<{}}{: <{}}] {}%", label_, "", n_full, "", k_width - n_full,
             100 * done / all);
  std::fflush(stderr);
}

}  // namespace patchbay
