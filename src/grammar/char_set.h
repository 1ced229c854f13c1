#pragma once

#include <vector>

namespace patchbay {

/// A set of characters, by their code points. Surrogates are no characters and never in it.
class CharSet {
 public:
  struct Range {
    char32_t first = 0;
    char32_t last = 0;  ///< included

    bool operator==(const Range &) const = default;
  };
  static constexpr char32_t k_last = 0x10FFFF;

  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges);
  [[nodiscard]] static CharSet all();

  void add(char32_t first, char32_t last);
  void add(const CharSet &other);

  /// Rising, with gaps between them.
  [[nodiscard]] const std::vector<Range> &ranges() const { return ranges_; }
  [[nodiscard]] bool empty() const { return ranges_.empty(); }
  [[nodiscard]] bool contains(char32_t c) const;
  [[nodiscard]] CharSet complement() const;
  [[nodiscard]] CharSet intersection(const CharSet &other) const;

  bool operator==(const CharSet &) const = default;

 private:
  std::vector<Range> ranges_;
};

}  // namespace patchbay
