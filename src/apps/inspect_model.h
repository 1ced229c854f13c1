#pragma once

#include <nlohmann/json.hpp>

#include "gguf/gguf_file.h"

namespace patchbay {

/// What a model file holds and, where this build can run it, what adapters may target. A model that
/// cannot be run is shown all the same, with the reason.
[[nodiscard]] nlohmann::ordered_json model_json(const GgufFile &file, bool with_tensors);

}  // namespace patchbay
