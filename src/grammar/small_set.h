#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <vector>

namespace patchbay {

/// A set of numbers that mostly has few: looked through one by one, and hashed once it has many.
class SmallSet {
 public:
  /// False: it was there.
  bool insert(uint64_t number) {
    if (!many_.empty()) return many_.insert(number).second;
    if (std::ranges::find(few_, number) != few_.end()) return false;
    few_.push_back(number);
    constexpr size_t k_most_few = 32;
    if (few_.size() > k_most_few) many_.insert(few_.begin(), few_.end());
    return true;
  }

  [[nodiscard]] size_t size() const { return many_.empty() ? few_.size() : many_.size(); }

 private:
  std::vector<uint64_t> few_;
  std::unordered_set<uint64_t> many_;
};

}  // namespace patchbay
