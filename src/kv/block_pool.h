#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace patchbay {

/// Which blocks of the KV cache are free, and how many tables hold each of the others. Pure
/// bookkeeping, no tensors. Engine thread.
class BlockPool {
 public:
  explicit BlockPool(uint32_t n_blocks);

  [[nodiscard]] uint32_t n_blocks() const { return static_cast<uint32_t>(n_refs_.size()); }
  [[nodiscard]] uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }

  /// How many hold each block; 0 where it is free.
  [[nodiscard]] std::span<const uint32_t> n_refs() const { return n_refs_; }
  [[nodiscard]] bool is_shared(int32_t block) const {
    return n_refs_[static_cast<size_t>(block)] > 1;
  }
  [[nodiscard]] const std::set<int32_t> &free_blocks() const { return free_; }

  /// One past the highest block in use.
  [[nodiscard]] uint32_t end() const;

  /// The lowest free block, now held once; nullopt when there is none.
  [[nodiscard]] std::optional<int32_t> take();

  /// One more holder of a block that is in use.
  void retain(int32_t block);

  /// One holder less; the last one frees it.
  void release(int32_t block);

 private:
  std::vector<uint32_t> n_refs_;
  std::set<int32_t> free_;
};

}  // namespace patchbay
