#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_tables.h"
#include "kv/kv_sizes.h"
#include "kv/prefix_cache.h"

namespace patchbay {

/// How many tokens a step adds to a sequence.
struct SeqExtent {
  int32_t seq_id = 0;
  uint32_t n_tokens = 0;
  PrefixContent content{};  ///< of these tokens, for the prefix cache; empty: nothing is kept
};

/// The tables of a model's cache, and the prefix cache over them: those of the layers that see
/// everything, and those of its sliding-window layers, whose sequences hold only their windows.
/// Both hold the same sequences with the same numbers of tokens. Engine thread.
class KvTables {
 public:
  class Reservation;

  /// `n_swa` 0: no sliding-window layers.
  KvTables(const KvSizes &sizes, uint32_t n_swa);

  // The prefix cache refers to the tables.
  KvTables(const KvTables &) = delete;
  KvTables &operator=(const KvTables &) = delete;

  [[nodiscard]] const BlockTables &full() const { return full_; }
  /// nullptr when the model has no sliding-window layers.
  [[nodiscard]] const BlockTables *window() const { return window_ ? &*window_ : nullptr; }
  [[nodiscard]] uint32_t n_swa() const { return n_swa_; }
  [[nodiscard]] uint32_t n_tokens(int32_t seq_id) const { return full_.table(seq_id).n_tokens; }

  /// Room for the tokens of a step, each sequence named once; what only the prefix cache holds goes
  /// as it is needed. All or nothing: nullopt, and no table changed, when too few blocks are free.
  [[nodiscard]] std::optional<Reservation> reserve(std::span<const SeqExtent> extents);

  void fork(int32_t from, int32_t to);
  void release(int32_t seq_id);

  [[nodiscard]] PrefixCache &prefixes() { return prefixes_; }
  [[nodiscard]] const PrefixCache &prefixes() const { return prefixes_; }

 private:
  void drop_out_of_window(int32_t seq_id);

  BlockTables full_;
  std::optional<BlockTables> window_;
  uint32_t n_swa_;
  PrefixCache prefixes_;
};

/// The blocks of a step: taken back at the end of scope unless the step is committed. Refers to its
/// tables.
class KvTables::Reservation {
 public:
  explicit Reservation(KvTables &tables) : tables_(&tables) {}
  Reservation(Reservation &&other) noexcept;
  Reservation &operator=(Reservation &&) = delete;
  ~Reservation();

  /// What has to be copied before the step writes.
  [[nodiscard]] std::vector<BlockCopy> copies_full() const { return copies_of(full_); }
  [[nodiscard]] std::vector<BlockCopy> copies_window() const { return copies_of(window_); }

  /// Keeps the step's blocks, for others as well where their contents are known, and gives back
  /// those that no later token's window reaches.
  void commit();

 private:
  friend class KvTables;
  [[nodiscard]] bool add(const SeqExtent &extent);
  [[nodiscard]] std::optional<BlockExtension> extend(BlockTables &tables, const SeqExtent &extent);
  [[nodiscard]] static std::vector<BlockCopy> copies_of(std::span<const BlockExtension> extensions);

  KvTables *tables_;  // nullptr: committed or moved from
  std::vector<SeqExtent> extents_;
  std::vector<BlockExtension> full_;
  std::vector<BlockExtension> window_;
};

}  // namespace patchbay
