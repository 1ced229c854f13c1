#include "engine/packed_cache.h"

#include <chrono>

namespace patchbay {

std::shared_ptr<const PackedAdapter> PackedCache::get(
    const std::shared_ptr<const Adapter> &adapter) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(packed_, [](const auto &entry) { return entry.second.expired(); });
    const auto known = packed_.find(adapter->digest);
    if (known != packed_.end()) {
      if (auto packed = known->second.lock()) return packed;
    }
  }
  // Outside the lock: two callers may pack the same one, and the first to be done is kept.
  const auto begin = std::chrono::steady_clock::now();
  auto made = std::make_shared<const PackedAdapter>(*adapter);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  const std::lock_guard lock(mutex_);
  packed_ms_ += took.count();
  auto &kept = packed_[adapter->digest];
  if (auto other = kept.lock()) return other;
  kept = made;
  return made;
}

double PackedCache::packed_ms() const {
  const std::lock_guard lock(mutex_);
  return packed_ms_;
}

}  // namespace patchbay
