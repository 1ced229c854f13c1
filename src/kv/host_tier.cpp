#include "kv/host_tier.h"

#include <cassert>
#include <new>

namespace patchbay {

std::optional<std::span<std::byte>> HostTier::add(Key key, size_t n_bytes) try {
  assert(has_room(n_bytes) && !contains(key));
  std::list<Entry> added;
  added.push_back({.key = key, .bytes = HostBytes(n_bytes)});
  places_.emplace(key, added.begin());
  entries_.splice(entries_.end(), added);
  size_bytes_ += n_bytes;
  return entries_.back().bytes.bytes();
} catch (const std::bad_alloc &) {
  return std::nullopt;
}

HostBytes HostTier::take(Key key) {
  const auto found = places_.find(key);
  assert(found != places_.end());
  HostBytes bytes = std::move(found->second->bytes);
  size_bytes_ -= bytes.bytes().size();
  entries_.erase(found->second);
  places_.erase(found);
  return bytes;
}

bool HostTier::remove(Key key) {
  if (!contains(key)) return false;
  const HostBytes gone = take(key);
  return true;
}

std::optional<HostTier::Key> HostTier::oldest() const {
  if (entries_.empty()) return std::nullopt;
  return entries_.front().key;
}

}  // namespace patchbay
