#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "kv/kv_invariants.h"
#include "kv/kv_tables.h"

namespace patchbay {

/// A digest of its own for each number; 0: the base.
inline Sha256Digest digest(unsigned char n) {
  Sha256Digest made{};
  made[31] = n;
  return made;
}

/// `n_tokens` different tokens, all of which wear the same.
inline PrefixContent text(uint32_t n_tokens, int32_t first = 100, unsigned char worn = 0) {
  PrefixContent made;
  for (uint32_t i = 0; i < n_tokens; ++i)
    made.push_back(first + static_cast<int32_t>(i), digest(worn));
  return made;
}

inline PrefixContent joined(PrefixContent one, const PrefixContent &more) {
  one.append(more);
  return one;
}

/// Tables whose sequences are begun, computed and checked as the engine does it.
struct CachedTables {
  explicit CachedTables(const KvSizes &sizes, uint32_t n_swa = 0) : tables(sizes, n_swa) {}

  /// A new sequence; returns how many of its tokens are there already.
  uint32_t begin(int32_t seq_id, const PrefixContent &content, const std::string &tenant = "") {
    tables.prefixes().begin(seq_id, tenant);
    tables.prefixes().adopt(seq_id, content);
    check();
    return tables.n_tokens(seq_id);
  }

  /// Computes what a sequence has not got of its content; false: there is no room.
  [[nodiscard]] bool compute(int32_t seq_id, const PrefixContent &content) {
    const uint32_t n_before = tables.n_tokens(seq_id);
    const uint32_t n_tokens = content.n_tokens() - n_before;
    auto reservation = tables.reserve(
        std::vector<SeqExtent>{{seq_id, n_tokens, content.slice(n_before, n_tokens)}});
    if (reservation) reservation->commit();
    check();
    return reservation.has_value();
  }

  void release(int32_t seq_id) {
    tables.release(seq_id);
    check();
  }

  /// A sequence that comes, is computed and goes.
  void serve(const PrefixContent &content, const std::string &tenant = "") {
    constexpr int32_t k_guest = 99;
    begin(k_guest, content, tenant);
    ASSERT_TRUE(compute(k_guest, content));
    release(k_guest);
  }

  [[nodiscard]] uint32_t hit(const PrefixContent &content, const std::string &tenant = "") const {
    return tables.prefixes().match(tenant, content).n_tokens;
  }

  void check() const { ASSERT_EQ(check_invariants(snapshot_of(tables)), ""); }

  KvTables tables;
};

}  // namespace patchbay
