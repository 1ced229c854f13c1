#pragma once

#include <map>
#include <string>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// What an adapter that fits its base would do to it, one sentence each. `movements` as in
/// AdapterReport.
[[nodiscard]] std::vector<std::string> outlook(const Adapter &adapter, const BaseInfo &base,
                                               const std::map<std::string, double> &movements);

}  // namespace patchbay
