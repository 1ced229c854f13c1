#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

// Numbers by format letters, for both of Python's ways to format.
namespace patchbay::jinja {

/// Digits of the absolute value: d, b, o, x or X.
[[nodiscard]] std::string print_digits(Int value, char type);

/// The absolute value as C's printf writes it: e, E, f, F, g or G. `alternative`: with the point
/// always there. Throws RenderError when it would be too long.
[[nodiscard]] std::string print_magnitude(double value, char type, Int precision, bool alternative);

/// `text` filled up to `width` characters: '<' at its right, '>' at its left, '^' on both sides.
/// Throws RenderError when it would be too long.
[[nodiscard]] std::string pad(std::string_view text, Int width, char align, std::string_view fill);

/// The first `n` characters.
[[nodiscard]] std::string_view first_chars(std::string_view text, Int n);

}  // namespace patchbay::jinja
