#pragma once

#include <cstddef>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

/// Python's ==: numbers by value whatever their kind, dicts whatever their order.
[[nodiscard]] bool is_equal(const Value &left, const Value &right);

/// How containers compare what they hold: the same thing, or an equal one.
[[nodiscard]] bool is_equal_item(const Value &left, const Value &right);

enum class Order { less, less_equal, greater, greater_equal };

/// Python's < <= > >=. Throws RenderError where the two have no order.
[[nodiscard]] bool is_ordered(const Value &left, Order order, const Value &right);

/// Equal values have equal hashes. Throws RenderError for what Python cannot hash.
[[nodiscard]] size_t hash_of(const Value &value);

/// Python's `item in container`. Throws RenderError when the container is none.
[[nodiscard]] bool contains(const Value &container, const Value &item);

}  // namespace patchbay::jinja
