#pragma once

#include "jinja/value.h"

namespace patchbay::jinja {

enum class BinaryOp { add, subtract, multiply, divide, floor_divide, modulo, power };

/// Python's operator of that name. Throws RenderError.
[[nodiscard]] Value apply(BinaryOp op, const Value &left, const Value &right);

/// -value. Throws RenderError unless it is a number.
[[nodiscard]] Value negate(const Value &value);

/// +value. Throws RenderError unless it is a number.
[[nodiscard]] Value affirm(const Value &value);

}  // namespace patchbay::jinja
