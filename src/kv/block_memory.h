#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace patchbay {

/// The bytes of blocks, for those who move them. A block of a part holds the keys and values of all
/// of the part's layers.
class BlockMemory {
 public:
  /// The layers that see everything, and the sliding-window layers: each kind has a pool of blocks
  /// of its own. Used as an index.
  enum Part : uint8_t { full, window, n_parts };

  virtual ~BlockMemory() = default;

  /// 0: there are no such layers.
  [[nodiscard]] virtual size_t block_bytes(Part part) const = 0;
  /// `bytes` has block_bytes(part) bytes, here and below.
  virtual void read_block(Part part, int32_t block, std::span<std::byte> bytes) const = 0;
  virtual void write_block(Part part, int32_t block, std::span<const std::byte> bytes) = 0;
  /// Zeros what the tokens from `n_tokens` on have in the bytes of a block.
  virtual void clear_after(Part part, uint32_t n_tokens, std::span<std::byte> bytes) const = 0;

 protected:
  BlockMemory() = default;
  BlockMemory(const BlockMemory &) = default;
  BlockMemory(BlockMemory &&) = default;
  BlockMemory &operator=(const BlockMemory &) = default;
  BlockMemory &operator=(BlockMemory &&) = default;
};

}  // namespace patchbay
