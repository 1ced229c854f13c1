#pragma once

#include <set>
#include <string>

#include "jinja/ast.h"

namespace patchbay::jinja {

/// Those of `names` that `block` reads, also inside of what it holds, before it mentions them in
/// any other way.
[[nodiscard]] std::set<std::string> find_undeclared(const Block &block,
                                                    std::set<std::string> names);

}  // namespace patchbay::jinja
