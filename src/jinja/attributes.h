#pragma once

#include <string>
#include <string_view>

#include "jinja/value.h"

namespace patchbay::jinja {

/// `object.name`: a method or attribute, else the item of that key. Undefined when there is
/// neither, and for what the sandbox hides (private names, methods that change their object).
/// Throws RenderError when `object` is undefined.
[[nodiscard]] Value get_attribute(const Value &object, const std::string &name);

/// `object[index]`: the item, else, for a string, the attribute of that name.
[[nodiscard]] Value get_item(const Value &object, const Value &index);

/// `object[start:stop:step]`; each an integer or None. Throws RenderError.
[[nodiscard]] Value get_slice(const Value &object, const Value &start, const Value &stop,
                              const Value &step);

/// `object|attr("name")`: the method or attribute only.
[[nodiscard]] Value get_attribute_only(const Value &object, const std::string &name);

}  // namespace patchbay::jinja
