#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace patchbay {

/// A picture of a table of numbers, none of them below 0.
struct HeatMap {
  std::string title;
  std::string subtitle;
  std::string row_axis;     ///< what rows are: "layer"
  std::string column_axis;  ///< what columns are: "weight"
  std::string scale;        ///< what the numbers are, beside the scale of colours
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<double>>> values;  ///< [row][column]; none: left empty
};

/// Whether a picture can be written under this name: .png or .svg.
[[nodiscard]] bool is_picture(const std::filesystem::path &path);

/// Draws it, numbers as percentages, into the file, which is replaced when all is written. Throws
/// LoadError. REQUIRES: is_picture(path); at least one row and column.
void draw_heat_map(const HeatMap &map, const std::filesystem::path &path);

}  // namespace patchbay
