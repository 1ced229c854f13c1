#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace patchbay {

/// One token's place in a sequence.
struct SeqPos {
  int32_t seq_id = 0;
  int32_t pos = 0;
};

/// Who sits in which cell of the KV cache. Pure bookkeeping, no tensors. Engine thread.
class CellTable {
 public:
  static constexpr int32_t k_free = -1;  ///< seq_id of an empty cell

  explicit CellTable(uint32_t n_cells) : cells_(n_cells, SeqPos{k_free, 0}) {}

  [[nodiscard]] uint32_t n_cells() const { return static_cast<uint32_t>(cells_.size()); }
  [[nodiscard]] uint32_t n_free() const { return n_cells() - n_used_; }
  [[nodiscard]] std::span<const SeqPos> cells() const { return cells_; }

  /// One past the highest cell in use: attention needs to look no further.
  [[nodiscard]] uint32_t end() const { return end_; }

  /// Gives each token of `tokens` a cell, lowest first. All or nothing: nullopt, and nothing
  /// changed, when too few are free.
  [[nodiscard]] std::optional<std::vector<int32_t>> claim(std::span<const SeqPos> tokens);

  /// Frees the cells of a sequence from position `first_pos` on and returns them.
  std::vector<int32_t> release(int32_t seq_id, int32_t first_pos = 0);

  /// Takes a claim back: frees exactly these cells, which are in use.
  void release(std::span<const int32_t> claimed);

 private:
  std::vector<SeqPos> cells_;
  uint32_t n_used_ = 0;
  uint32_t end_ = 0;
};

}  // namespace patchbay
