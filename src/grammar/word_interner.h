#pragma once

#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace patchbay {

/// Gives equal sequences of words the same number, from 0 on in the order in which they came.
class WordInterner {
 public:
  /// The number of `words`, a new one if they were not known.
  uint32_t intern(std::span<const uint32_t> words) {
    const uint64_t hash = XXH3_64bits(words.data(), words.size_bytes());
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto known = first; known != last; ++known) {
      if (std::ranges::equal(at(known->second), words)) return known->second;
    }
    const uint32_t id = size();
    words_.insert(words_.end(), words.begin(), words.end());
    begin_.push_back(words_.size());
    by_hash_.emplace(hash, id);
    return id;
  }

  /// Valid until the next intern().
  [[nodiscard]] std::span<const uint32_t> at(uint32_t id) const {
    return std::span(words_).subspan(begin_[id], begin_[id + 1] - begin_[id]);
  }

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(begin_.size() - 1); }
  /// About.
  [[nodiscard]] size_t size_bytes() const {
    constexpr size_t k_bytes_per_entry = 48;  // of the table
    return words_.size() * sizeof(uint32_t) + size() * k_bytes_per_entry;
  }

 private:
  std::vector<uint32_t> words_;
  std::vector<size_t> begin_{0};
  std::unordered_multimap<uint64_t, uint32_t> by_hash_;
};

}  // namespace patchbay
