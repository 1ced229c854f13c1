#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace patchbay {

/// A request that may be admitted next, with what decides on it. Who shares is compared by address.
struct Candidate {
  const void *tenant = nullptr;
  const void *member = nullptr;  ///< tenant and what is worn, see FairShare
  double tenant_counter = 0;
  double tenant_weight = 1;
  double member_counter = 0;
  /// Part of its prompt that need not be computed, in [0, 1].
  float cached_share = 0;
  bool is_resident = false;  ///< its adapters are in memory
  /// What its member was charged since a later one of it was admitted first.
  double passed_over = 0;
  std::chrono::steady_clock::time_point due{};  ///< by which it should be admitted
  uint64_t arrival = 0;
};

/// What those that are cheap to admit (cached prompts, resident adapters) may be served ahead of
/// those whose turn it is, in units of token_cost.h: a second or two of the machine measured in
/// docs/decisions/0010-fair-sharing.md.
constexpr double k_preference_slack = 2048;

/// Who is admitted next: among tenants that are at most `slack` ahead of the least served one, and
/// of each of those among members within `slack` as well, the request with the largest cached
/// share, then with resident adapters, then of the least counters, then due first, then the earlier
/// arrival. A member's first request, by due and arrival, is passed over by its own kind up to
/// `slack` at most. REQUIRES: there is a candidate.
[[nodiscard]] size_t choose_next(std::span<const Candidate> candidates,
                                 double slack = k_preference_slack);

/// Whether one of two requests of a member is before the other in its line.
[[nodiscard]] bool is_earlier(const Candidate &one, const Candidate &other);

}  // namespace patchbay
