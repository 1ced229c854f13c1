#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lora/adapter_registry.h"
#include "patchbay/request.hpp"
#include "server/json_text.h"

namespace patchbay {

/// What a request wears, by the names that the registry had when it came.
struct WornEntry {
  RegisteredAdapter entry;
  float strength = 1;
  int32_t active_from = 0;  ///< first prompt token that wears it; -1: none does
};

/// Puts what is worn onto the request, whose prompt is known: the spans, and where each begins.
void wear(std::vector<WornEntry> &worn, Request &request);

/// As generation_settings.lora shows it: id, name, scale, active_from.
[[nodiscard]] Json worn_json(const std::vector<WornEntry> &worn);

/// Names of what acts somewhere.
[[nodiscard]] std::vector<std::string> acting_names(const std::vector<WornEntry> &worn);

/// aLoRAs whose invocation tokens are not in the prompt, so that they act nowhere.
[[nodiscard]] std::vector<std::string> names_not_invoked(const std::vector<WornEntry> &worn);

/// Names as a header has them: comma separated, percent-encoded.
[[nodiscard]] std::string header_of(const std::vector<std::string> &names);

}  // namespace patchbay
