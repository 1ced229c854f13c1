#pragma once

#include <string>
#include <string_view>

#include "jinja/arguments.h"

namespace patchbay::jinja {

/// Python's format.format(*arguments). `escapes`: the values are escaped, as when the format is
/// markup. Throws RenderError.
[[nodiscard]] std::string format_text(std::string_view format, const Arguments &arguments,
                                      bool escapes);

}  // namespace patchbay::jinja
