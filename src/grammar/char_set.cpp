#include "grammar/char_set.h"

#include <algorithm>

namespace patchbay {
namespace {

constexpr char32_t k_first_surrogate = 0xD800;
constexpr char32_t k_last_surrogate = 0xDFFF;

}  // namespace

CharSet::CharSet(std::initializer_list<Range> ranges) {
  for (const Range &range : ranges) add(range.first, range.last);
}

CharSet CharSet::all() { return {{0, k_last}}; }

void CharSet::add(char32_t first, char32_t last) {
  if (first < k_first_surrogate && last >= k_first_surrogate) {
    add(first, k_first_surrogate - 1);
    first = k_first_surrogate;
  }
  if (first >= k_first_surrogate && first <= k_last_surrogate) first = k_last_surrogate + 1;
  last = std::min(last, k_last);
  if (first > last) return;
  // Everything that touches the new range becomes one with it.
  auto begin = std::ranges::lower_bound(ranges_, first, {}, [](const Range &range) {
    return range.last == k_last ? k_last : range.last + 1;
  });
  auto end = begin;
  while (end != ranges_.end() && end->first <= last + 1) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
    ++end;
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CharSet::add(const CharSet &other) {
  for (const Range &range : other.ranges_) add(range.first, range.last);
}

bool CharSet::contains(char32_t c) const {
  const auto range = std::ranges::lower_bound(ranges_, c, {}, &Range::last);
  return range != ranges_.end() && range->first <= c;
}

CharSet CharSet::complement() const {
  CharSet others;
  char32_t next = 0;
  for (const Range &range : ranges_) {
    if (range.first > next) others.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= k_last) others.add(next, k_last);
  return others;
}

CharSet CharSet::intersection(const CharSet &other) const {
  CharSet both;
  auto one = ranges_.begin();
  auto two = other.ranges_.begin();
  while (one != ranges_.end() && two != other.ranges_.end()) {
    const char32_t first = std::max(one->first, two->first);
    const char32_t last = std::min(one->last, two->last);
    if (first <= last) both.ranges_.push_back({first, last});
    if (one->last < two->last) {
      ++one;
    } else {
      ++two;
    }
  }
  return both;
}

}  // namespace patchbay
