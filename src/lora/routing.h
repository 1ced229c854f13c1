#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace patchbay {

/// One adapter as a token wears it: its index in the pool and the strength.
struct Worn {
  int32_t i_adapter = 0;
  float strength = 1;

  bool operator==(const Worn &) const = default;
};

/// What a token wears, in the canonical order of LoraPool::canonical(). Empty: the base alone.
/// Strengths of 0 are never kept: zero is exactly "not there".
using AdapterSet = std::vector<Worn>;

/// Neighbouring rows of a step that wear the same.
struct Segment {
  int64_t first_row = 0;
  int64_t n_rows = 0;
  AdapterSet set;  ///< never empty
};

/// Which adapters each row of one step wears, as data: [n_rows][n_lanes], a row's unused lanes hold
/// k_none. Built per step.
class Routing {
 public:
  static constexpr int32_t k_none = -1;

  /// `rows[i]`: set of row i; the pointers are read here and not kept.
  [[nodiscard]] static Routing of(std::span<const AdapterSet *const> rows);

  /// The routing of a selection of rows, for the part of the graph that only computes those.
  [[nodiscard]] Routing select(std::span<const int32_t> rows) const;

  /// The rows that wear something, in as few segments as they make.
  [[nodiscard]] std::vector<Segment> segments() const;

  [[nodiscard]] bool empty() const { return n_lanes_ == 0; }
  [[nodiscard]] size_t n_rows() const { return n_rows_; }
  [[nodiscard]] size_t n_lanes() const { return n_lanes_; }  ///< the largest set's size
  [[nodiscard]] const Worn &at(size_t row, size_t lane) const {
    return worn_[row * n_lanes_ + lane];
  }

 private:
  size_t n_rows_ = 0;
  size_t n_lanes_ = 0;
  std::vector<Worn> worn_;
};

}  // namespace patchbay
