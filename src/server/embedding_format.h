#pragma once

#include <span>
#include <string>
#include <vector>

#include "server/json_text.h"

namespace patchbay {

/// Divides a vector by its size, as llama-server's field embd_normalize counts: -1 not at all, 0 so
/// that the largest number is 32760, 1 by the sum of absolute values, 2 by the Euclidean length,
/// p > 2 by the p-norm. A vector of zeros stays.
void normalise(std::span<float> vector, int p);

/// Numbers that are written as short as a float allows.
[[nodiscard]] Json number_array(std::span<const float> vector);

/// F32, little-endian, in base64 (RFC 4648, section 4).
[[nodiscard]] std::string base64_of(std::span<const float> vector);

}  // namespace patchbay
