#pragma once

#include <span>
#include <string>
#include <vector>

#include "apps/inspect_pairs.h"
#include "lora/adapter.h"

namespace patchbay {

/// What an adapter that fits its base would do to it, one sentence each. `pairs` are the adapter's.
[[nodiscard]] std::vector<std::string> outlook(const Adapter &adapter, const BaseInfo &base,
                                               std::span<const PairReport> pairs);

}  // namespace patchbay
