#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace patchbay {

/// Rows of cells in aligned columns under a title.
class TextTable {
 public:
  /// `aligns` has one of 'l' and 'r' per column.
  TextTable(std::string title, std::string aligns)
      : title_(std::move(title)), aligns_(std::move(aligns)) {}

  /// REQUIRES: as many cells as columns; each made by us or by terminal_text.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  /// Title, rows indented by two, and an empty line before; nothing when there are no rows.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::vector<size_t> widths() const;

  std::string title_;
  std::string aligns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A string from a file on one line of a terminal: valid UTF-8, control characters spelled out, cut
/// after `max_chars`.
[[nodiscard]] std::string terminal_text(std::string_view text, size_t max_chars = 100);

/// "1 pair", "2 pairs"
[[nodiscard]] std::string count_text(uint64_t n, std::string_view noun);

/// "1.5 MiB"
[[nodiscard]] std::string bytes_text(size_t size_bytes);

}  // namespace patchbay
