#include "kv/kv_invariants.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/rounding.h"

namespace patchbay {
namespace {

PoolSnapshot snapshot_of(const BlockTables &tables, uint32_t n_swa) {
  const auto &pool = tables.pool();
  std::set<int32_t> kept;
  for (uint32_t block = 0; block < pool.n_blocks(); ++block) {
    if (pool.is_kept(static_cast<int32_t>(block))) kept.insert(static_cast<int32_t>(block));
  }
  return {.block_size = tables.block_size(),
          .n_swa = n_swa,
          .n_refs = {pool.n_refs().begin(), pool.n_refs().end()},
          .free_blocks = {pool.free_blocks().begin(), pool.free_blocks().end()},
          .kept_blocks = std::move(kept),
          .n_idle = pool.n_idle(),
          .tables = tables.tables()};
}

/// How many blocks at the front of a table no later token sees.
uint32_t n_out_of_window(const BlockTable &table, const PoolSnapshot &pool) {
  const uint32_t n_next = table.n_tokens + 1;
  if (pool.n_swa == 0 || n_next <= pool.n_swa) return 0;
  return std::min((n_next - pool.n_swa) / pool.block_size,
                  static_cast<uint32_t>(table.blocks.size()));
}

std::string check_table(int32_t seq_id, const BlockTable &table, const PoolSnapshot &pool) {
  if (table.n_tokens == 0) return fmt::format("sequence {} has a table and no tokens", seq_id);
  const uint32_t n_blocks = ceil_div(table.n_tokens, pool.block_size);
  if (table.blocks.size() != n_blocks) {
    return fmt::format("sequence {} has {} tokens in {} blocks", seq_id, table.n_tokens,
                       table.blocks.size());
  }
  if (table.n_dropped != n_out_of_window(table, pool)) {
    return fmt::format("sequence {} with {} tokens has dropped {} blocks", seq_id, table.n_tokens,
                       table.n_dropped);
  }
  for (size_t i = 0; i < table.blocks.size(); ++i) {
    const int32_t block = table.blocks[i];
    const bool is_dropped = block == BlockTable::k_none;
    if (is_dropped != (i < table.n_dropped))
      return fmt::format("entry {} of sequence {} is {}", i, seq_id, block);
    if (!is_dropped && (block < 0 || static_cast<size_t>(block) >= pool.n_refs.size()))
      return fmt::format("sequence {} has block {}, which there is not", seq_id, block);
    if (!is_dropped && std::ranges::count(table.blocks, block) > 1)
      return fmt::format("sequence {} has block {} twice", seq_id, block);
  }
  return {};
}

std::string check_counts(const PoolSnapshot &pool) {
  std::vector<uint32_t> n_holders(pool.n_refs.size(), 0);
  for (const auto &[seq_id, table] : pool.tables) {
    for (const int32_t block : table.blocks) {
      if (block != BlockTable::k_none) ++n_holders[static_cast<size_t>(block)];
    }
  }
  uint32_t n_idle = 0;
  for (const int32_t block : pool.kept_blocks) {
    if (n_holders[static_cast<size_t>(block)]++ == 0) ++n_idle;
  }
  for (size_t block = 0; block < n_holders.size(); ++block) {
    if (n_holders[block] != pool.n_refs[block]) {
      return fmt::format("block {} is counted {} times and has {} holders", block,
                         pool.n_refs[block], n_holders[block]);
    }
  }
  if (n_idle != pool.n_idle)
    return fmt::format("{} blocks are counted as idle and {} are", pool.n_idle, n_idle);
  return {};
}

std::string check_free(const PoolSnapshot &pool) {
  std::vector<uint32_t> n_listed(pool.n_refs.size(), 0);
  for (const int32_t block : pool.free_blocks) {
    if (block < 0 || static_cast<size_t>(block) >= n_listed.size())
      return fmt::format("block {} is free, and there is none", block);
    ++n_listed[static_cast<size_t>(block)];
  }
  for (size_t block = 0; block < n_listed.size(); ++block) {
    const uint32_t wanted = pool.n_refs[block] == 0 ? 1 : 0;
    if (n_listed[block] != wanted) {
      return fmt::format("block {} is counted {} times and listed as free {} times", block,
                         pool.n_refs[block], n_listed[block]);
    }
  }
  return {};
}

std::string check_pool(const PoolSnapshot &pool) {
  for (const auto &[seq_id, table] : pool.tables) {
    if (auto problem = check_table(seq_id, table, pool); !problem.empty()) return problem;
  }
  if (auto problem = check_counts(pool); !problem.empty()) return problem;
  return check_free(pool);
}

std::string check_same_sequences(const PoolSnapshot &full, const PoolSnapshot &window) {
  if (full.tables.size() != window.tables.size()) {
    return fmt::format("{} sequences have full tables and {} have window tables",
                       full.tables.size(), window.tables.size());
  }
  for (const auto &[seq_id, table] : full.tables) {
    const auto found = window.tables.find(seq_id);
    if (found == window.tables.end() || found->second.n_tokens != table.n_tokens)
      return fmt::format("sequence {} differs between its full and its window table", seq_id);
  }
  return {};
}

}  // namespace

KvSnapshot snapshot_of(const KvTables &tables) {
  KvSnapshot snapshot{.full = snapshot_of(tables.full(), 0),
                      .window = {},
                      .prefixes = tables.prefixes().check_invariants()};
  if (tables.window() != nullptr) snapshot.window = snapshot_of(*tables.window(), tables.n_swa());
  return snapshot;
}

std::string check_invariants(const KvSnapshot &snapshot) {
  if (!snapshot.prefixes.empty()) return "prefix cache: " + snapshot.prefixes;
  if (auto problem = check_pool(snapshot.full); !problem.empty()) return problem;
  if (!snapshot.window) return {};
  if (auto problem = check_pool(*snapshot.window); !problem.empty()) return "window: " + problem;
  return check_same_sequences(snapshot.full, *snapshot.window);
}

}  // namespace patchbay
