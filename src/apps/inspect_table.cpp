#include "apps/inspect_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace patchbay {
namespace {

/// Code points; near enough to columns for what these tables hold.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

/// One character of valid UTF-8, or how it is spelled where a terminal would obey it.
std::string spelled(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character == "\n") return "\\n";
  if (character == "\t") return "\\t";
  if (first < 0x20 || first == 0x7F) return fmt::format("\\x{:02x}", first);
  // U+0080 to U+009F: control characters as well.
  if (first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0) {
    return fmt::format("\\x{:02x}", static_cast<unsigned char>(character[1]));
  }
  return std::string(character);
}

}  // namespace

std::vector<size_t> TextTable::widths() const {
  std::vector<size_t> widths(aligns_.size());
  for (const auto &row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  return widths;
}

std::string TextTable::text() const {
  if (rows_.empty()) return {};
  const auto column_widths = widths();
  std::string text = "\n" + title_ + "\n";
  for (const auto &row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(column_widths[i] - width_of(row[i]), ' ');
      line += "  " + (aligns_[i] == 'r' ? padding + row[i] : row[i] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string terminal_text(std::string_view text, size_t max_chars) {
  // A character has at most four bytes, so that no more of a long text has to be looked at.
  const std::string valid = repair_utf8(text.substr(0, 4 * (max_chars + 1)));
  std::string shown;
  size_t n_chars = 0;
  for (size_t pos = 0; pos < valid.size(); ++n_chars) {
    if (n_chars == max_chars) return shown + "...";
    const size_t size = utf8_size_at(valid, pos);
    shown += spelled(std::string_view(valid).substr(pos, size));
    pos += size;
  }
  return shown;
}

std::string count_text(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string bytes_text(size_t size_bytes) {
  constexpr double k_step = 1024;
  constexpr std::string_view k_units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (size_bytes < 1024) return fmt::format("{} B", size_bytes);
  double value = static_cast<double>(size_bytes) / k_step;
  size_t i_unit = 0;
  for (; value >= k_step && i_unit + 1 < std::size(k_units); ++i_unit) value /= k_step;
  return fmt::format("{:.1f} {}", value, k_units[i_unit]);
}

}  // namespace patchbay
