#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace patchbay::jinja {

/// Reads a template and binds its names. Throws SyntaxError, also for tags that have no meaning
/// in a chat template (include, import, extends, block). REQUIRES: valid UTF-8.
[[nodiscard]] Template parse_template(std::string_view source);

}  // namespace patchbay::jinja
