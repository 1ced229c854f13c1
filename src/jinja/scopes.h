#pragma once

#include "jinja/ast.h"

namespace patchbay::jinja {

/// Decides, once for all renderings, which variable each name of a template means. jinja2 compiles
/// templates to Python, so a name belongs to the scope that assigns to it anywhere, and reads there
/// nothing or the outer value until it does. Also refuses what jinja2 refuses when it compiles:
/// unknown filters and tests that no condition guards, `break` outside of a loop, assignments to
/// `loop`. Throws SyntaxError.
void bind_names(Template &result);

}  // namespace patchbay::jinja
