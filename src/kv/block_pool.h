#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace patchbay {

/// Which blocks of the KV cache are free, and how many hold each of the others: the tables of
/// sequences, and the prefix cache, which holds what it keeps for later. Pure bookkeeping, no
/// tensors. Engine thread.
class BlockPool {
 public:
  explicit BlockPool(uint32_t n_blocks);

  [[nodiscard]] uint32_t n_blocks() const { return static_cast<uint32_t>(n_refs_.size()); }
  [[nodiscard]] uint32_t n_free() const { return static_cast<uint32_t>(free_.size()); }
  /// Blocks that only the prefix cache holds.
  [[nodiscard]] uint32_t n_idle() const { return static_cast<uint32_t>(idle_.size()); }

  /// How many hold each block; 0 where it is free.
  [[nodiscard]] std::span<const uint32_t> n_refs() const { return n_refs_; }
  [[nodiscard]] bool is_shared(int32_t block) const {
    return n_refs_[static_cast<size_t>(block)] > 1;
  }
  [[nodiscard]] bool is_kept(int32_t block) const { return is_kept_[static_cast<size_t>(block)]; }
  [[nodiscard]] bool is_idle(int32_t block) const {
    return idle_since_[static_cast<size_t>(block)] > 0;
  }
  [[nodiscard]] const std::set<int32_t> &free_blocks() const { return free_; }
  /// The block that has been idle longest.
  [[nodiscard]] std::optional<int32_t> longest_idle() const;

  /// One past the highest block in use.
  [[nodiscard]] uint32_t end() const;

  /// The lowest free block, now held once; nullopt when there is none.
  [[nodiscard]] std::optional<int32_t> take();

  /// One more holder of a block that is in use.
  void retain(int32_t block);

  /// One holder less; the last one frees it.
  void release(int32_t block);

  /// The prefix cache becomes a holder of a block that is in use and not kept.
  void keep(int32_t block);

  /// The prefix cache is no longer a holder.
  void forget(int32_t block);

 private:
  void update_idle(int32_t block);

  std::vector<uint32_t> n_refs_;
  std::vector<bool> is_kept_;
  std::set<int32_t> free_;
  uint64_t n_times_idle_ = 0;         // blocks that became idle so far
  std::vector<uint64_t> idle_since_;  // as counted there; 0: it is not
  std::map<uint64_t, int32_t> idle_;  // by idle_since_
};

}  // namespace patchbay
