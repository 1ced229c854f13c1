#pragma once

#include <map>
#include <string>

#include "apps/heat_map.h"

namespace patchbay {

/// How far each tensor is moved, layer by module; of several on one place the largest.
/// `movements` as in AdapterReport.
[[nodiscard]] HeatMap movement_map(const std::map<std::string, double> &movements,
                                   const std::string &adapter, const std::string &base);

}  // namespace patchbay
