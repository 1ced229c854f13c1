#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kv/kv_tables.h"

namespace patchbay {

/// The state of one pool and its tables, as plain data.
struct PoolSnapshot {
  uint32_t block_size = 1;
  uint32_t n_swa = 0;  ///< 0: sequences keep all of their blocks
  std::vector<uint32_t> n_refs;
  std::vector<int32_t> free_blocks;
  std::set<int32_t> kept_blocks;  ///< by the prefix cache
  uint32_t n_idle = 0;
  std::map<int32_t, BlockTable> tables;

  bool operator==(const PoolSnapshot &) const = default;
};

struct KvSnapshot {
  PoolSnapshot full;
  std::optional<PoolSnapshot> window;
  std::string prefixes{};  ///< what is wrong inside the prefix cache; empty: nothing
};

[[nodiscard]] KvSnapshot snapshot_of(const KvTables &tables);

/// What is wrong with the bookkeeping between two steps, in words; empty when nothing is.
[[nodiscard]] std::string check_invariants(const KvSnapshot &snapshot);

}  // namespace patchbay
