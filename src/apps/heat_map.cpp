#include "apps/heat_map.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numbers>
#include <span>

#include "base/error.h"
#include "base/replacement_file.h"
#include "base/text.h"

namespace patchbay {
namespace {

// Lengths in points of the picture.
constexpr double k_margin = 24;
constexpr double k_row_height = 20;
constexpr double k_cell_padding = 10;
constexpr double k_font = 12;
constexpr double k_title_font = 16;
constexpr double k_small_font = 10;
constexpr double k_line = 18;
constexpr double k_scale_width = 14;
constexpr double k_scale_labels = 70;  // the scale's numbers and what they are
constexpr double k_png_scale = 2;      // pixels per point, for sharp letters
constexpr const char *k_face = "sans-serif";

struct SurfaceEnd {
  void operator()(cairo_surface_t *surface) const { cairo_surface_destroy(surface); }
};
struct ContextEnd {
  void operator()(cairo_t *context) const { cairo_destroy(context); }
};
using Surface = std::unique_ptr<cairo_surface_t, SurfaceEnd>;
using Context = std::unique_ptr<cairo_t, ContextEnd>;

struct Colour {
  double red = 0;
  double green = 0;
  double blue = 0;
};

/// Light for little to dark for much, told apart by everyone and on paper too.
Colour colour_of(double part) {
  constexpr std::array<Colour, 5> k_stops{{{1.00, 0.98, 0.85},
                                           {0.99, 0.80, 0.45},
                                           {0.93, 0.46, 0.24},
                                           {0.70, 0.13, 0.30},
                                           {0.26, 0.04, 0.29}}};
  const double at = std::clamp(part, 0.0, 1.0) * (k_stops.size() - 1);
  const auto i = std::min(static_cast<size_t>(at), k_stops.size() - 2);
  const double rest = at - static_cast<double>(i);
  const auto mix = [&](double Colour::*channel) {
    return k_stops[i].*channel + rest * (k_stops[i + 1].*channel - k_stops[i].*channel);
  };
  return {mix(&Colour::red), mix(&Colour::green), mix(&Colour::blue)};
}

/// "0.52%", "12%"
std::string percent(double value) {
  const double number = 100 * value;
  if (number == 0) return "0%";
  return number < 0.01 ? "<0.01%" : fmt::format("{:.{}f}%", number, number < 9.95 ? 2 : 0);
}

enum class Align { left, middle, right };

/// Draws onto a surface of any kind.
class Painter {
 public:
  explicit Painter(cairo_surface_t *surface) : context_(cairo_create(surface)) {}

  void font(double size, bool bold = false) {
    cairo_select_font_face(context_.get(), k_face, CAIRO_FONT_SLANT_NORMAL,
                           bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(context_.get(), size);
  }
  void colour(const Colour &colour) {
    cairo_set_source_rgb(context_.get(), colour.red, colour.green, colour.blue);
  }
  void box(double x, double y, double width, double height) {
    cairo_rectangle(context_.get(), x, y, width, height);
    cairo_fill(context_.get());
  }
  void frame(double x, double y, double width, double height) {
    cairo_set_line_width(context_.get(), 1);
    cairo_rectangle(context_.get(), x, y, width, height);
    cairo_stroke(context_.get());
  }
  [[nodiscard]] double width_of(const std::string &text) const {
    cairo_text_extents_t extents;
    cairo_text_extents(context_.get(), text.c_str(), &extents);
    return extents.x_advance;
  }
  /// `y` is the middle of the letters.
  void text(double x, double y, const std::string &text, Align align) {
    cairo_font_extents_t extents;
    cairo_font_extents(context_.get(), &extents);
    const double back = align == Align::left     ? 0
                        : align == Align::middle ? width_of(text) / 2
                                                 : width_of(text);
    cairo_move_to(context_.get(), x - back, y + (extents.ascent - extents.descent) / 2);
    cairo_show_text(context_.get(), text.c_str());
  }
  /// From bottom to top, around the point.
  void upright_text(double x, double y, const std::string &line) {
    cairo_save(context_.get());
    cairo_translate(context_.get(), x, y);
    cairo_rotate(context_.get(), -std::numbers::pi / 2);
    text(0, 0, line, Align::middle);
    cairo_restore(context_.get());
  }
  void scale(double factor) { cairo_scale(context_.get(), factor, factor); }

 private:
  Context context_;
};

constexpr Colour k_ink{0.13, 0.13, 0.13};
constexpr Colour k_pale_ink{0.4, 0.4, 0.4};
constexpr Colour k_paper{1, 1, 1};
constexpr Colour k_nothing{0.93, 0.93, 0.93};

/// Where everything goes.
struct Layout {
  double cell_width = 0;
  double left = 0;  // of the cells
  double top = 0;
  double width = 0;  // of the picture
  double height = 0;
};

template <class Texts>
double widest(Painter &painter, const Texts &texts) {
  double most = 0;
  for (const auto &text : texts) most = std::max(most, painter.width_of(text));
  return most;
}

/// Of the colour bar: as tall as the cells, within bounds, and never shorter than what it is of is
/// long.
double scale_height(const HeatMap &map) {
  constexpr double k_least = 200;
  constexpr double k_most = 300;
  return std::clamp(k_row_height * static_cast<double>(map.rows.size()), k_least, k_most);
}

Layout lay_out(const HeatMap &map) {
  const Surface nowhere(cairo_recording_surface_create(CAIRO_CONTENT_COLOR_ALPHA, nullptr));
  Painter painter(nowhere.get());
  painter.font(k_font);
  Layout layout;
  layout.cell_width =
      std::max(widest(painter, map.columns), painter.width_of("<0.01%")) + k_cell_padding;
  layout.left = k_margin + k_line + widest(painter, map.rows) + k_cell_padding;
  layout.top = k_margin + 4 * k_line;
  const double cells = layout.cell_width * static_cast<double>(map.columns.size());
  const double scale = 2 * k_line + k_scale_width + k_scale_labels;
  double titles = painter.width_of(map.subtitle);
  painter.font(k_title_font, /*bold=*/true);
  titles = std::max(titles, painter.width_of(map.title));
  layout.width = std::max(layout.left + cells + scale, k_margin + titles + k_margin);
  const double rows = k_row_height * static_cast<double>(map.rows.size());
  layout.height = layout.top + std::max(rows, scale_height(map)) + k_margin;
  return layout;
}

double largest(const HeatMap &map) {
  double most = 0;
  for (const auto &row : map.values) {
    for (const auto &value : row) most = std::max(most, value.value_or(0));
  }
  return most;
}

void paint_titles(Painter &painter, const HeatMap &map, const Layout &layout) {
  painter.colour(k_ink);
  painter.font(k_title_font, /*bold=*/true);
  painter.text(k_margin, k_margin, map.title, Align::left);
  painter.font(k_font);
  painter.colour(k_pale_ink);
  painter.text(k_margin, k_margin + 1.2 * k_line, map.subtitle, Align::left);
  const double cells = layout.cell_width * static_cast<double>(map.columns.size());
  const double rows = k_row_height * static_cast<double>(map.rows.size());
  painter.text(layout.left + cells / 2, layout.top - 1.6 * k_line, map.column_axis, Align::middle);
  painter.upright_text(k_margin, layout.top + rows / 2, map.row_axis);
}

void paint_labels(Painter &painter, const HeatMap &map, const Layout &layout) {
  painter.colour(k_ink);
  painter.font(k_font);
  for (size_t i = 0; i < map.columns.size(); ++i) {
    const double x = layout.left + (static_cast<double>(i) + 0.5) * layout.cell_width;
    painter.text(x, layout.top - k_line / 2, map.columns[i], Align::middle);
  }
  for (size_t i = 0; i < map.rows.size(); ++i) {
    const double y = layout.top + (static_cast<double>(i) + 0.5) * k_row_height;
    painter.text(layout.left - k_cell_padding / 2, y, map.rows[i], Align::right);
  }
}

void paint_cell(Painter &painter, double x, double y, double width,
                const std::optional<double> &value, double most) {
  const double part = value && most > 0 ? *value / most : 0;
  painter.colour(value ? colour_of(part) : k_nothing);
  painter.box(x, y, width - 1, k_row_height - 1);
  if (!value) return;
  constexpr double k_dark = 0.5;
  painter.colour(part > k_dark ? k_paper : k_ink);
  painter.font(k_small_font);
  painter.text(x + width / 2, y + k_row_height / 2, percent(*value), Align::middle);
}

void paint_cells(Painter &painter, const HeatMap &map, const Layout &layout, double most) {
  for (size_t i_row = 0; i_row < map.rows.size(); ++i_row) {
    for (size_t i = 0; i < map.columns.size(); ++i) {
      paint_cell(painter, layout.left + static_cast<double>(i) * layout.cell_width,
                 layout.top + static_cast<double>(i_row) * k_row_height, layout.cell_width,
                 map.values[i_row][i], most);
    }
  }
}

/// Colours beside the cells, with the numbers that they stand for.
void paint_scale(Painter &painter, const HeatMap &map, const Layout &layout, double most) {
  constexpr int k_steps = 100;
  constexpr int k_labels = 4;
  const double x =
      layout.left + layout.cell_width * static_cast<double>(map.columns.size()) + k_line;
  const double height = scale_height(map);
  for (int i = 0; i < k_steps; ++i) {
    painter.colour(colour_of((i + 0.5) / k_steps));
    painter.box(x, layout.top + height * (k_steps - 1 - i) / k_steps, k_scale_width,
                height / k_steps + 0.5);
  }
  painter.colour(k_pale_ink);
  painter.frame(x, layout.top, k_scale_width, height);
  painter.font(k_small_font);
  for (int i = 0; i <= k_labels; ++i) {
    painter.text(x + k_scale_width + 5, layout.top + height * (k_labels - i) / k_labels,
                 percent(most * i / k_labels), Align::left);
  }
  painter.upright_text(x + k_scale_width + k_scale_labels, layout.top + height / 2, map.scale);
}

void paint(Painter &painter, const HeatMap &map, const Layout &layout) {
  const double most = largest(map);
  painter.colour(k_paper);
  painter.box(0, 0, layout.width, layout.height);
  paint_titles(painter, map, layout);
  paint_labels(painter, map, layout);
  paint_cells(painter, map, layout, most);
  paint_scale(painter, map, layout, most);
}

using Bytes = std::vector<std::byte>;

cairo_status_t append(void *bytes, const unsigned char *data, unsigned int n) {
  const auto more = std::as_bytes(std::span(data, n));
  auto &all = *static_cast<Bytes *>(bytes);
  all.insert(all.end(), more.begin(), more.end());
  return CAIRO_STATUS_SUCCESS;
}

void check(cairo_status_t status, const std::filesystem::path &path) {
  if (status == CAIRO_STATUS_SUCCESS) return;
  throw LoadError({.path = path.string(),
                   .problem = fmt::format("cannot be drawn: {}", cairo_status_to_string(status))});
}

Bytes png_of(const HeatMap &map, const Layout &layout, const std::filesystem::path &path) {
  const auto pixels = [](double points) {
    return static_cast<int>(std::ceil(points * k_png_scale));
  };
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, pixels(layout.width), pixels(layout.height)));
  {
    Painter painter(surface.get());
    painter.scale(k_png_scale);
    paint(painter, map, layout);
  }
  Bytes bytes;
  check(cairo_surface_write_to_png_stream(surface.get(), append, &bytes), path);
  return bytes;
}

Bytes svg_of(const HeatMap &map, const Layout &layout, const std::filesystem::path &path) {
  Bytes bytes;
  const Surface surface(
      cairo_svg_surface_create_for_stream(append, &bytes, layout.width, layout.height));
  {
    Painter painter(surface.get());
    paint(painter, map, layout);
  }
  cairo_surface_finish(surface.get());
  check(cairo_surface_status(surface.get()), path);
  return bytes;
}

std::string suffix_of(const std::filesystem::path &path) {
  return ascii_lower(path.extension().string());
}

}  // namespace

bool is_picture(const std::filesystem::path &path) {
  return suffix_of(path) == ".png" || suffix_of(path) == ".svg";
}

void draw_heat_map(const HeatMap &map, const std::filesystem::path &path) {
  const Layout layout = lay_out(map);
  const bool is_png = suffix_of(path) == ".png";
  const Bytes bytes = is_png ? png_of(map, layout, path) : svg_of(map, layout, path);
  ReplacementFile file(path, FileReaders::as_umask);
  file.write(bytes);
  file.commit();
}

}  // namespace patchbay
