#pragma once

#include <string_view>
#include <vector>

namespace patchbay {

/// Whether `suffix` is all of `path` or its last components.
[[nodiscard]] bool ends_with_components(std::string_view path, std::string_view suffix);

/// All that ends_with_components() accepts for `path`, longest first: "a.b.c", "b.c", "c". Views
/// into `path`.
[[nodiscard]] std::vector<std::string_view> dotted_suffixes(std::string_view path);

}  // namespace patchbay
