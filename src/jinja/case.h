#pragma once

#include <string>
#include <string_view>

namespace patchbay::jinja {

// Python's str methods of the same names: full Unicode mappings, so the length may change.
[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);
[[nodiscard]] std::string capitalize(std::string_view text);
[[nodiscard]] std::string title(std::string_view text);
[[nodiscard]] std::string swapcase(std::string_view text);

/// Whether there are cased characters and all are lower (upper) case.
[[nodiscard]] bool is_lower(std::string_view text);
[[nodiscard]] bool is_upper(std::string_view text);
/// Whether it is what title() writes.
[[nodiscard]] bool is_title(std::string_view text);

}  // namespace patchbay::jinja
