#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/json_number_grammar.h"

namespace patchbay {

/// The pattern of a `format` of strings that a grammar can guarantee; none for others.
[[nodiscard]] std::optional<std::string> format_pattern(std::string_view format);
/// The bounds of a `format` of numbers (OpenAPI); none for others.
[[nodiscard]] std::optional<NumberBounds> format_bounds(std::string_view format);

}  // namespace patchbay
