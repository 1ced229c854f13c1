#include "engine/engine_invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace patchbay {
namespace {

std::string check_seats(const EngineSnapshot &snapshot) {
  std::multiset<int32_t> seats(snapshot.spare.begin(), snapshot.spare.end());
  seats.insert(snapshot.free.begin(), snapshot.free.end());
  for (const auto &seat : snapshot.taken) seats.insert(seat.seq_id);
  for (uint32_t i = 0; i < snapshot.n_seats; ++i) {
    const size_t n = seats.count(static_cast<int32_t>(i));
    if (n != 1) return fmt::format("seat {} is taken, spare or free {} times, want once", i, n);
  }
  if (seats.size() != snapshot.n_seats)
    return fmt::format("{} seats are known and there are {}", seats.size(), snapshot.n_seats);
  return {};
}

std::string check_seat(const EngineSnapshot::Seat &seat, uint32_t n_ctx) {
  if (seat.n_computed >= seat.n_tokens) {
    return fmt::format("sequence {} has nothing left to compute: {} of {} tokens", seat.seq_id,
                       seat.n_computed, seat.n_tokens);
  }
  if (seat.n_computed != seat.n_cached) {
    return fmt::format("sequence {} has computed {} tokens and the cache holds {}", seat.seq_id,
                       seat.n_computed, seat.n_cached);
  }
  if (seat.n_tokens > n_ctx) {
    return fmt::format("sequence {} has {} tokens and the context holds {}", seat.seq_id,
                       seat.n_tokens, n_ctx);
  }
  return {};
}

}  // namespace

std::string check_invariants(const EngineSnapshot &snapshot) {
  if (auto wrong = check_seats(snapshot); !wrong.empty()) return wrong;
  for (const auto &seat : snapshot.taken) {
    if (auto wrong = check_seat(seat, snapshot.n_ctx); !wrong.empty()) return wrong;
  }
  if (std::ranges::any_of(snapshot.n_cached_unseated, [](uint32_t n) { return n > 0; }))
    return "the cache holds tokens of a seat that nobody sits on";
  return {};
}

}  // namespace patchbay
