#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "grammar/grammar.h"
#include "grammar/word_interner.h"

namespace patchbay {

/// The states that matching a grammar goes through, found as they are needed and kept. A state is a
/// set of places; a place is a node of the grammar with a frame, and a frame is the set of (node,
/// frame) where matching goes on once the node's rule has ended. All callers of a rule at one byte
/// share one frame, and frames and states of equal content are one. So as many ways to read the
/// text as there may be, its state is as small as in Earley's algorithm (CACM 13(2), 1970), and
/// what repeats in the text comes back to the same states. One thread at a time.
class GrammarStates {
 public:
  using State = uint32_t;
  static constexpr State k_dead = 0;  ///< no text goes on like that

  explicit GrammarStates(std::shared_ptr<const Grammar> grammar);

  /// Nothing is read yet.
  [[nodiscard]] State start() const { return start_; }
  [[nodiscard]] State step(State state, uint8_t byte) { return row(state)[byte]; }
  using Row = std::array<State, 256>;
  /// Where each byte leads. Valid until drop_rows() or clear().
  [[nodiscard]] const Row &row(State state);
  /// The text may end here.
  [[nodiscard]] bool accepts(State state) const { return contents_.at(state)[0] != 0; }
  /// Some byte may follow.
  [[nodiscard]] bool goes_on(State state) const { return contents_.at(state).size() > 1; }

  /// The characters that most lead to one state, and that state.
  struct Run {
    std::bitset<128> ascii;
    bool beyond_ascii = false;  ///< every character above ASCII does
    State next = k_dead;
  };
  /// Valid until drop_rows() or clear().
  [[nodiscard]] const Run &run(State state);

  /// Work done so far: places and edges looked at.
  [[nodiscard]] uint64_t work() const { return work_; }
  /// A state was too large to be found: whatever leads there reads k_dead.
  [[nodiscard]] bool overflowed() const { return overflowed_; }
  /// Of the states themselves.
  [[nodiscard]] size_t size_bytes() const;
  /// Of what row() and run() have found.
  [[nodiscard]] size_t row_bytes() const;
  /// Forgets that; it will be found again.
  void drop_rows();
  /// Forgets all states but the start, whose number may change.
  void clear();

 private:
  struct Place {
    uint32_t node = 0;
    uint32_t frame = 0;

    auto operator<=>(const Place &) const = default;
  };
  class Closure;

  [[nodiscard]] State close(std::span<const Place> reached);
  [[nodiscard]] State enter_root();
  [[nodiscard]] std::unique_ptr<const Row> compute_row(State state);
  [[nodiscard]] Run compute_run(State state);
  [[nodiscard]] bool reads_beyond_ascii(State state, State next);
  /// The state to which all of these bytes lead; k_dead when there is none.
  [[nodiscard]] State common_step(State state, uint8_t first, uint8_t last);

  std::shared_ptr<const Grammar> grammar_;
  WordInterner frames_;    // (node, frame) pairs, rising
  WordInterner contents_;  // of states: whether it accepts, then its places, rising
  std::vector<std::unique_ptr<const Row>> rows_;  // by state, null: not computed yet
  std::vector<std::unique_ptr<const Run>> runs_;
  size_t n_rows_ = 0;
  size_t n_runs_ = 0;
  State start_ = k_dead;
  uint64_t work_ = 0;
  bool overflowed_ = false;
};

}  // namespace patchbay
