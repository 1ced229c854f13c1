#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kv/block_tables.h"
#include "kv/kv_sizes.h"

namespace patchbay {

/// How many tokens a step adds to a sequence.
struct SeqExtent {
  int32_t seq_id = 0;
  uint32_t n_tokens = 0;
};

/// The tables of a model's cache: those of the layers that see everything, and those of its
/// sliding-window layers, whose sequences hold only their windows. Both hold the same sequences
/// with the same numbers of tokens. Engine thread.
class KvTables {
 public:
  class Reservation;

  /// `n_swa` 0: no sliding-window layers.
  KvTables(const KvSizes &sizes, uint32_t n_swa);

  [[nodiscard]] const BlockTables &full() const { return full_; }
  /// nullptr when the model has no sliding-window layers.
  [[nodiscard]] const BlockTables *window() const { return window_ ? &*window_ : nullptr; }
  [[nodiscard]] uint32_t n_swa() const { return n_swa_; }
  [[nodiscard]] uint32_t n_tokens(int32_t seq_id) const { return full_.table(seq_id).n_tokens; }

  /// Room for the tokens of a step, each sequence named once. All or nothing: nullopt, and nothing
  /// changed, when too few blocks are free.
  [[nodiscard]] std::optional<Reservation> reserve(std::span<const SeqExtent> extents);

  void fork(int32_t from, int32_t to);
  void release(int32_t seq_id);

 private:
  void drop_out_of_window(int32_t seq_id);

  BlockTables full_;
  std::optional<BlockTables> window_;
  uint32_t n_swa_;
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

  /// Keeps the step's blocks and gives back those that no later token's window reaches.
  void commit();

 private:
  friend class KvTables;
  [[nodiscard]] bool add(const SeqExtent &extent);
  [[nodiscard]] static std::vector<BlockCopy> copies_of(std::span<const BlockExtension> extensions);

  KvTables *tables_;  // nullptr: committed or moved from
  std::vector<BlockExtension> full_;
  std::vector<BlockExtension> window_;
};

}  // namespace patchbay
