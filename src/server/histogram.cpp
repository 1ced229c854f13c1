#include "server/histogram.h"

#include <algorithm>

namespace patchbay {

void Histogram::observe(double seconds) {
  const auto bound = std::ranges::lower_bound(bounds_, seconds);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += seconds;
}

HistogramCounts Histogram::counts() const {
  HistogramCounts counts{.bounds = {bounds_.begin(), bounds_.end()}, .sum = sum_};
  for (const auto &count : counts_) counts.counts.push_back(count);
  return counts;
}

}  // namespace patchbay
