#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

/// Python's `format % values`. `escapes`: the values are escaped, as when the format is markup.
/// Throws RenderError.
[[nodiscard]] std::string print_formatted(std::string_view format, const Value &values,
                                          bool escapes = false);

}  // namespace patchbay::jinja
