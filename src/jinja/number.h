#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

[[nodiscard]] std::string print_int(Int value);

/// Python's repr: the shortest text that reads back as the same number.
[[nodiscard]] std::string print_real(double value);

/// What int(text, base) reads; nullopt where it raises ValueError. `base` 0 goes by the prefix.
/// Throws RenderError when it needs more than 128 bits.
[[nodiscard]] std::optional<Int> parse_int(std::string_view text, int base = 10);

/// What float(text) reads.
[[nodiscard]] std::optional<double> parse_real(std::string_view text);

/// int(value): towards zero. Throws RenderError: not finite, more than 128 bits.
[[nodiscard]] Int truncate(double value);

/// round(value, n_digits): half to even, of the number that the float really is.
[[nodiscard]] double round_real(double value, Int n_digits);
[[nodiscard]] Int round_int(Int value, Int n_digits);

// Python's operators. Throw RenderError: division by zero, more than 128 bits.
[[nodiscard]] Int add(Int left, Int right);
[[nodiscard]] Int subtract(Int left, Int right);
[[nodiscard]] Int multiply(Int left, Int right);
[[nodiscard]] double divide(double left, double right);
[[nodiscard]] Int floor_divide(Int left, Int right);
[[nodiscard]] double floor_divide(double left, double right);
[[nodiscard]] Int modulo(Int left, Int right);
[[nodiscard]] double modulo(double left, double right);
[[nodiscard]] Value power(const Value &left, const Value &right);

}  // namespace patchbay::jinja
