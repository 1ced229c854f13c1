#pragma once

#include <span>
#include <string>

#include "gguf/safetensors_header.h"

namespace patchbay {

/// The bytes before the first tensor's data: the header's length, the header, padded so that the
/// data starts at a multiple of 8. Offsets are those of the entries, which must lie one after
/// another from 0 on.
[[nodiscard]] std::string safetensors_head(std::span<const SafetensorsEntry> entries);

}  // namespace patchbay
