#include "kv/cell_table.h"

#include <algorithm>

namespace patchbay {

std::optional<std::vector<int32_t>> CellTable::claim(std::span<const SeqPos> tokens) {
  if (tokens.size() > n_free()) return std::nullopt;
  std::vector<int32_t> claimed;
  claimed.reserve(tokens.size());
  for (uint32_t i = 0; claimed.size() < tokens.size(); ++i) {
    if (cells_[i].seq_id != k_free) continue;
    cells_[i] = tokens[claimed.size()];
    claimed.push_back(static_cast<int32_t>(i));
    end_ = std::max(end_, i + 1);
  }
  n_used_ += static_cast<uint32_t>(tokens.size());
  return claimed;
}

std::vector<int32_t> CellTable::release(int32_t seq_id, int32_t first_pos) {
  std::vector<int32_t> freed;
  for (size_t i = 0; i < cells_.size(); ++i) {
    if (cells_[i].seq_id == seq_id && cells_[i].pos >= first_pos) {
      freed.push_back(static_cast<int32_t>(i));
    }
  }
  release(freed);
  return freed;
}

void CellTable::release(std::span<const int32_t> claimed) {
  for (const int32_t i : claimed) cells_[static_cast<size_t>(i)] = {k_free, 0};
  n_used_ -= static_cast<uint32_t>(claimed.size());
  while (end_ > 0 && cells_[end_ - 1].seq_id == k_free) --end_;
}

}  // namespace patchbay
