#pragma once

#include "lora/adapter.h"

namespace patchbay {

/// SHA-256 over what an adapter does: every pair's target, rank, scale and numbers, every
/// replacement, and the invocation tokens. Names and paths are not part of it, so the same adapter
/// under two names has one digest, and other weights never share one.
[[nodiscard]] AdapterDigest digest_of(const Adapter &adapter);

}  // namespace patchbay
