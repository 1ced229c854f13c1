#include "server/slot_memory.h"

#include <utility>

namespace patchbay {

SlotMemory::Computed SlotMemory::of(const Request &request) {
  Computed computed{.tokens = request.prompt, .tenant = request.tenant};
  for (const auto &[first, adapters] : request.spans) {
    Computed::Span span{.first = first};
    for (const auto &[adapter, strength] : adapters) span.adapters.push_back({adapter, strength});
    computed.spans.push_back(std::move(span));
  }
  return computed;
}

void SlotMemory::remember(uint32_t slot, Computed computed) {
  const std::lock_guard lock(mutex_);
  slots_.at(slot) = std::move(computed);
}

std::optional<SessionTokens> SlotMemory::recall(uint32_t slot) const {
  const std::lock_guard lock(mutex_);
  const Computed &computed = slots_.at(slot);
  if (computed.tokens.empty()) return std::nullopt;
  SessionTokens session{.tokens = computed.tokens, .tenant = computed.tenant};
  for (const auto &[first, adapters] : computed.spans) {
    RequestSpan span{.first = first};
    for (const auto &[known, strength] : adapters) {
      auto adapter = known.lock();
      if (adapter == nullptr) return std::nullopt;
      span.adapters.push_back({std::move(adapter), strength});
    }
    session.spans.push_back(std::move(span));
  }
  return session;
}

size_t SlotMemory::forget(uint32_t slot) {
  const std::lock_guard lock(mutex_);
  return std::exchange(slots_.at(slot), {}).tokens.size();
}

}  // namespace patchbay
