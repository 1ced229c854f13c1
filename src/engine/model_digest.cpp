#include "engine/model_digest.h"

#include <cstdint>

namespace patchbay {

Xxh128Digest digest_of(const GgufFile &file) {
  Xxh128 hash;
  for (const auto &shard : file.shards()) {
    const auto size_bytes = static_cast<uint64_t>(shard.bytes().size());
    hash.add(std::as_bytes(std::span(&size_bytes, 1)));
    hash.add(shard.bytes());
  }
  return hash.digest();
}

}  // namespace patchbay
