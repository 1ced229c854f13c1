#pragma once

#include <span>
#include <string_view>

#include "jinja/arguments.h"
#include "jinja/runtime.h"

namespace patchbay::jinja {

/// `self|name(arguments)`. Throws RenderError.
using FilterBody = Value (*)(Runtime &, const Value &self, const Arguments &);

/// Null when there is none of that name.
[[nodiscard]] FilterBody find_filter(std::string_view name);

struct NamedFilter {
  std::string_view name;
  FilterBody body;
};

// Where the filters are written.
[[nodiscard]] std::span<const NamedFilter> text_filters();
[[nodiscard]] std::span<const NamedFilter> number_filters();
[[nodiscard]] std::span<const NamedFilter> sequence_filters();
[[nodiscard]] std::span<const NamedFilter> order_filters();
[[nodiscard]] std::span<const NamedFilter> selection_filters();

}  // namespace patchbay::jinja
