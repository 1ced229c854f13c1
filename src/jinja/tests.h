#pragma once

#include <string_view>

#include "jinja/arguments.h"
#include "jinja/runtime.h"

namespace patchbay::jinja {

/// `self is name(arguments)`. Throws RenderError.
using TestBody = bool (*)(Runtime &, const Value &self, const Arguments &);

/// Null when there is none of that name.
[[nodiscard]] TestBody find_test(std::string_view name);

}  // namespace patchbay::jinja
