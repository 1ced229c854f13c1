#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace patchbay {

/// A piece of the text that is being merged; it covers [begin, begin + size_bytes).
struct Symbol {
  uint32_t begin = 0;
  uint32_t size_bytes = 0;  // 0: merged into its left neighbour
  uint32_t n_chars = 0;
  int32_t token = -1;  // -1: no token spells this character
  int32_t prev = -1;
  int32_t next = -1;
};

/// What two neighbours become, and how soon: lower `rank` first, then lower `tie`, then further
/// left.
struct Merge {
  int64_t rank = 0;
  uint64_t tie = 0;
  int32_t token = -1;
};

/// Merges neighbouring symbols, best pair first, until none can be merged: BPE (Sennrich et al.,
/// arXiv 1508.07909) with a heap over a linked list, O(n log n). Keeps its memory between texts.
/// One thread at a time.
class SymbolMerger {
 public:
  void clear() { symbols_.clear(); }

  /// Appends a symbol to the right. REQUIRES: fewer than 2^31 symbols.
  void add(uint32_t begin, uint32_t size_bytes, uint32_t n_chars, int32_t token) {
    const auto i = static_cast<int32_t>(symbols_.size());
    if (i > 0) symbols_.back().next = i;
    symbols_.push_back({begin, size_bytes, n_chars, token, i - 1, -1});
  }

  /// `find(left, right)` gives the Merge of two symbols, or nullopt. It must depend on the two
  /// alone.
  template <class Find>
  void merge(const Find &find) {
    heap_.clear();
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) append(find, static_cast<int32_t>(i));
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      const Candidate candidate = heap_.back();
      heap_.pop_back();
      if (is_current(candidate)) apply(find, candidate);
    }
  }

  /// Calls `visit(symbol)` for what is left, from left to right.
  template <class Visit>
  void for_each(const Visit &visit) const {
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = at(i).next) visit(at(i));
  }

 private:
  struct Candidate {
    Merge merge;
    int32_t left = 0;
    uint32_t size_bytes = 0;  // of both; either of them having grown shows here

    // Heaps keep the largest on top, so the better candidate is the larger one.
    bool operator<(const Candidate &other) const {
      if (merge.rank != other.merge.rank) return merge.rank > other.merge.rank;
      if (merge.tie != other.merge.tie) return merge.tie > other.merge.tie;
      return left > other.left;
    }
  };

  [[nodiscard]] const Symbol &at(int32_t i) const { return symbols_[static_cast<size_t>(i)]; }
  [[nodiscard]] Symbol &at(int32_t i) { return symbols_[static_cast<size_t>(i)]; }

  [[nodiscard]] bool is_current(const Candidate &candidate) const {
    const Symbol &left = at(candidate.left);
    return left.size_bytes > 0 && left.next >= 0 &&
           left.size_bytes + at(left.next).size_bytes == candidate.size_bytes;
  }

  template <class Find>
  bool append(const Find &find, int32_t i_left) {
    const Symbol &left = at(i_left);
    const Symbol &right = at(left.next);
    const std::optional<Merge> merge = find(left, right);
    if (merge) heap_.push_back({*merge, i_left, left.size_bytes + right.size_bytes});
    return merge.has_value();
  }

  template <class Find>
  void push(const Find &find, int32_t i_left) {
    if (append(find, i_left)) std::push_heap(heap_.begin(), heap_.end());
  }

  template <class Find>
  void apply(const Find &find, const Candidate &candidate) {
    Symbol &left = at(candidate.left);
    Symbol &right = at(left.next);
    left.size_bytes += right.size_bytes;
    left.n_chars += right.n_chars;
    left.token = candidate.merge.token;
    left.next = right.next;
    right.size_bytes = 0;
    if (left.next >= 0) at(left.next).prev = candidate.left;
    if (left.prev >= 0) push(find, left.prev);
    if (left.next >= 0) push(find, candidate.left);
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> heap_;
};

}  // namespace patchbay
