#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace patchbay {

/// The report of a model or adapter, as model_json and adapter_json make it, for people: aligned
/// plain text, fit for any terminal whatever the file's strings hold.
[[nodiscard]] std::string report_text(const nlohmann::ordered_json &report);

}  // namespace patchbay
