#pragma once

#include <string>
#include <string_view>

namespace patchbay::jinja {

/// What stands between the quotes of a literal with its escapes resolved, as Python's
/// "unicode-escape" does it. Throws RenderError: a broken escape, a surrogate, a \N{name}.
[[nodiscard]] std::string unescape_literal(std::string_view text);

}  // namespace patchbay::jinja
