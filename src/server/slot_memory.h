#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "patchbay/engine.hpp"

namespace patchbay {

/// Of what the last answer of each slot was computed, so that it can be saved later. Keeps tokens
/// only: what was computed of them is in the prefix cache, and an unloaded adapter may go. Any
/// thread.
class SlotMemory {
 public:
  explicit SlotMemory(uint32_t n_slots) : slots_(n_slots) {}

  /// A prompt with its answer, and what they wear.
  struct Computed {
    struct Worn {
      std::weak_ptr<const Adapter> adapter{};
      float strength = 1;
    };
    struct Span {
      int32_t first = 0;
      std::vector<Worn> adapters{};
    };
    std::vector<int32_t> tokens{};
    std::vector<Span> spans{};
    std::string tenant{};
  };
  /// Without an answer yet.
  [[nodiscard]] static Computed of(const Request &request);

  /// REQUIRES of all: slot < n_slots.
  void remember(uint32_t slot, Computed computed);
  /// None: nothing was computed in that slot, or an adapter that it wore has gone.
  [[nodiscard]] std::optional<SessionTokens> recall(uint32_t slot) const;
  /// Returns the number of tokens that were known.
  size_t forget(uint32_t slot);

 private:
  mutable std::mutex mutex_;
  std::vector<Computed> slots_;
};

}  // namespace patchbay
