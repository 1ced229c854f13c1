#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "gguf/gguf_file.h"

namespace patchbay {

/// {key: {type, value}} of scalars and strings, {key: {type, n_items}} of arrays, in file order.
[[nodiscard]] nlohmann::ordered_json metadata_json(const GgufFile &file);

/// The string under `key`; nullopt also when it is of another type, so that a damaged file can
/// still be shown.
[[nodiscard]] std::optional<std::string> text_of(const GgufFile &file, std::string_view key);

}  // namespace patchbay
