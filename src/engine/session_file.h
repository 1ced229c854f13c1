#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/xxh128.h"
#include "kv/kv_geometry.h"
#include "kv/prefix_blocks.h"
#include "lora/adapter.h"

namespace patchbay {

/// An adapter that tokens of a session wear.
struct SessionAdapter {
  AdapterDigest digest{};
  std::string name;
  float strength = 1;

  bool operator==(const SessionAdapter &) const = default;
};

/// Tokens from `first` on wear these.
struct SessionSpan {
  uint32_t first = 0;
  Sha256Digest digest{};  ///< what keys and values depend on, see WornFrom
  std::vector<SessionAdapter> adapters;

  bool operator==(const SessionSpan &) const = default;
};

/// What is in a session file, docs/sessions.md.
struct SessionFile {
  Xxh128Digest model{};  ///< of its files, see digest_of()
  KvGeometry geometry;
  std::vector<int32_t> tokens;
  std::vector<SessionSpan> spans;  ///< rising from 0 on; none: the base alone
  PrefixBlocks blocks;             ///< bytes of somebody else's
};

inline constexpr std::string_view k_session_magic("PBSESSN\n", 8);

/// Magic, version and length.
inline constexpr size_t k_session_start_bytes =
    k_session_magic.size() + sizeof(uint32_t) + sizeof(uint64_t);

/// Throws LoadError unless the first k_session_start_bytes bytes of a file of `size_bytes`, all of
/// a shorter one, are those of a session that can be read here.
void check_session_start(const std::string &path, std::span<const std::byte> bytes,
                         uint64_t size_bytes);

/// Hands the file to `sink`, piece by piece. REQUIRES: the blocks are as geometry and tokens say.
void encode_session(const SessionFile &file,
                    const std::function<void(std::span<const std::byte>)> &sink);

/// The blocks are views of `bytes`. `path` is for messages. Throws LoadError for anything but the
/// bytes of a whole, undamaged file, before anything that the file has no bytes for is allocated.
[[nodiscard]] SessionFile decode_session(const std::string &path, std::span<const std::byte> bytes);

}  // namespace patchbay
