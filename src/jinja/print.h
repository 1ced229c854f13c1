#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

/// Python's str(value): what {{ value }} prints. Throws RenderError for values whose text differs
/// from run to run, such as functions, and for what would be too large.
[[nodiscard]] std::string print(const Value &value);

/// Python's repr(value), how a value looks inside a printed list. `depth`: levels around it.
[[nodiscard]] std::string repr(const Value &value, int depth = 0);

/// 'text' in quotes with what is not printable escaped.
[[nodiscard]] std::string repr_text(std::string_view text);

/// repr with all but ASCII escaped, as Python's ascii() gives it.
[[nodiscard]] std::string repr_ascii(const Value &value);

/// "[a, b]" or any other brackets, of what repr gives.
[[nodiscard]] std::string repr_items(std::string_view open, const std::vector<Value> &items,
                                     std::string_view close, int depth);

}  // namespace patchbay::jinja
