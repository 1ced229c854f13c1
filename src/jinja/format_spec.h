#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

/// Python's format(value, spec), the part behind the colon in "{:>8.2f}". Throws RenderError.
[[nodiscard]] std::string format_value(const Value &value, std::string_view spec);

}  // namespace patchbay::jinja
