#include "lora/routing.h"

#include <algorithm>

namespace patchbay {

Routing Routing::of(std::span<const AdapterSet *const> rows) {
  Routing routing;
  routing.n_rows_ = rows.size();
  for (const AdapterSet *set : rows) routing.n_lanes_ = std::max(routing.n_lanes_, set->size());
  routing.worn_.resize(routing.n_rows_ * routing.n_lanes_, Worn{k_none, 0});
  for (size_t row = 0; row < rows.size(); ++row) {
    std::ranges::copy(*rows[row],
                      routing.worn_.begin() + static_cast<ptrdiff_t>(row * routing.n_lanes_));
  }
  return routing;
}

std::vector<Segment> Routing::segments() const {
  std::vector<Segment> segments;
  for (size_t row = 0; row < n_rows_; ++row) {
    const std::span<const Worn> lanes(worn_.data() + row * n_lanes_, n_lanes_);
    const auto end = std::ranges::find(lanes, k_none, &Worn::i_adapter);
    const std::span<const Worn> set(lanes.begin(), end);
    if (set.empty()) continue;
    const auto i_row = static_cast<int64_t>(row);
    const bool goes_on = !segments.empty() &&
                         segments.back().first_row + segments.back().n_rows == i_row &&
                         std::ranges::equal(segments.back().set, set);
    if (!goes_on) segments.push_back({i_row, 0, AdapterSet(set.begin(), set.end())});
    ++segments.back().n_rows;
  }
  return segments;
}

Routing Routing::select(std::span<const int32_t> rows) const {
  Routing selected;
  selected.n_rows_ = rows.size();
  selected.n_lanes_ = n_lanes_;
  selected.worn_.reserve(rows.size() * n_lanes_);
  for (const int32_t row : rows) {
    const auto first = worn_.begin() + row * static_cast<ptrdiff_t>(n_lanes_);
    selected.worn_.insert(selected.worn_.end(), first, first + static_cast<ptrdiff_t>(n_lanes_));
  }
  return selected;
}

}  // namespace patchbay
