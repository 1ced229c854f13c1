#pragma once

#include <vector>

#include "lora/adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {

/// The adapters that any token of a request wears, each content once, ordered by digest; those at
/// strength 0 are not worn. They live as long as the request.
[[nodiscard]] std::vector<const Adapter *> worn_adapters(const Request &request);

/// What a request wears, whatever the strengths: digests in rising order; empty: the base alone.
using AdapterKey = std::vector<AdapterDigest>;
[[nodiscard]] AdapterKey adapter_key_of(const Request &request);

}  // namespace patchbay
