#pragma once

#include <span>
#include <string>

#include "apps/heat_map.h"
#include "apps/inspect_pairs.h"

namespace patchbay {

/// How far each weight is moved, layer by module; of several pairs on one place the
/// largest. Pairs without a known weight are left out.
[[nodiscard]] HeatMap norm_map(std::span<const PairReport> pairs, const std::string &adapter,
                               const std::string &base);

}  // namespace patchbay
