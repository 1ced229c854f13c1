#include "base/xxh128.h"

#include <xxhash.h>

#include <algorithm>
#include <new>

namespace patchbay {

Xxh128::Xxh128() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void Xxh128::Deleter::operator()(XXH3_state_s *state) const { XXH3_freeState(state); }

void Xxh128::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

Xxh128Digest Xxh128::digest() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
  Xxh128Digest digest{};
  std::ranges::copy(canonical.digest, digest.begin());
  return digest;
}

}  // namespace patchbay
