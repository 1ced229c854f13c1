#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace patchbay {

/// What the engine believes after a step, beside what the cache says.
struct EngineSnapshot {
  struct Seat {
    int32_t seq_id = 0;
    uint32_t n_tokens = 0;    ///< known of the sequence
    uint32_t n_computed = 0;  ///< of these in the cache, as the engine counts
    uint32_t n_cached = 0;    ///< as the cache's block table counts
  };

  uint32_t n_seats = 0;
  uint32_t n_ctx = 0;
  std::vector<Seat> taken;
  std::vector<int32_t> spare;  ///< kept for choices that are still to come
  std::vector<int32_t> free;
  std::vector<uint32_t> n_cached_unseated;  ///< of each spare and free seat
};

/// What is wrong with a snapshot, in words; empty: nothing.
[[nodiscard]] std::string check_invariants(const EngineSnapshot &snapshot);

}  // namespace patchbay
