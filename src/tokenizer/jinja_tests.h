#pragma once

#include <string_view>

#include "tokenizer/jinja_arguments.h"
#include "tokenizer/jinja_runtime.h"

namespace patchbay::jinja {

/// `self is name(arguments)`. Throws RenderError.
using TestBody = bool (*)(Runtime &, const Value &self, const Arguments &);

/// Null when there is none of that name.
[[nodiscard]] TestBody find_test(std::string_view name);

}  // namespace patchbay::jinja
