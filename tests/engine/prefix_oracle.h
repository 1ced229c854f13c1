#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// What an ideal prefix cache of endless memory would have: every beginning of every sequence that
/// was computed, by tenant, tokens and what each token wears, told apart without hashing.
class PrefixOracle {
 public:
  /// This adapter reaches no keys and no values.
  void leave_out(const AdapterDigest &digest) { without_kv_.insert(digest); }

  /// Tokens of the request's, prompt and answer, that were computed.
  void add(const Request &request, std::span<const int32_t> tokens) {
    const auto keys = keys_of(request, tokens);
    computed_.insert(keys.begin(), keys.end());
  }

  /// How many of these tokens, from the first one on, were computed by anybody.
  [[nodiscard]] uint32_t longest(const Request &request, std::span<const int32_t> tokens) {
    const auto keys = keys_of(request, tokens);
    const auto is_computed = [&](uint64_t key) { return computed_.contains(key); };
    return static_cast<uint32_t>(std::ranges::find_if_not(keys, is_computed) - keys.begin());
  }

  /// How many tokens two sequences have in common.
  [[nodiscard]] uint32_t n_common(const Request &one, std::span<const int32_t> one_tokens,
                                  const Request &other, std::span<const int32_t> other_tokens) {
    const auto mine = keys_of(one, one_tokens);
    const auto theirs = keys_of(other, other_tokens);
    return static_cast<uint32_t>(std::ranges::mismatch(mine, theirs).in1 - mine.begin());
  }

 private:
  using Worn = std::map<AdapterDigest, float>;
  using Key = std::tuple<uint64_t, std::string, int32_t, Worn>;

  /// A number for each token: equal ones have the same tokens, wearing the same, before them.
  [[nodiscard]] std::vector<uint64_t> keys_of(const Request &request,
                                              std::span<const int32_t> tokens) {
    std::vector<uint64_t> keys;
    uint64_t before = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const Key key{before, request.tenant, tokens[i], worn_at(request, i)};
      before = numbers_.emplace(key, numbers_.size() + 1).first->second;
      keys.push_back(before);
    }
    return keys;
  }

  [[nodiscard]] Worn worn_at(const Request &request, size_t pos) const {
    const RequestSpan *span = nullptr;
    for (const auto &one : request.spans) {
      if (static_cast<size_t>(one.first) <= pos) span = &one;
    }
    Worn worn;
    if (span == nullptr) return worn;
    for (const auto &[adapter, strength] : span->adapters) {
      if (!without_kv_.contains(adapter->digest)) worn[adapter->digest] += strength;
    }
    std::erase_if(worn, [](const auto &entry) { return entry.second == 0; });
    return worn;
  }

  std::set<AdapterDigest> without_kv_;
  std::map<Key, uint64_t> numbers_;
  std::set<uint64_t> computed_;
};

}  // namespace patchbay
