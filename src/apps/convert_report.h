#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace patchbay {

/// What `convert` prints without --json.
[[nodiscard]] std::string conversion_text(const nlohmann::ordered_json &report);

}  // namespace patchbay
