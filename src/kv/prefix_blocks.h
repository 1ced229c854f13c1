#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/host_tier.h"

namespace patchbay {

/// The bytes of the blocks of a beginning, block by block, which somebody else keeps.
struct PrefixBlocks {
  std::vector<std::span<const std::byte>> full;
  std::vector<std::span<const std::byte>> window;  ///< none in it: it is not there
};

/// The same, kept, as the prefix cache had them.
struct SavedPrefix {
  uint32_t n_tokens = 0;  ///< that the blocks hold; of the last one perhaps only a part is wanted
  std::vector<HostBytes> full;
  std::vector<HostBytes> window;

  /// Valid as long as the object.
  [[nodiscard]] PrefixBlocks blocks() const {
    PrefixBlocks blocks;
    for (const auto &bytes : full) blocks.full.push_back(bytes.bytes());
    for (const auto &bytes : window) blocks.window.push_back(bytes.bytes());
    return blocks;
  }
};

}  // namespace patchbay
