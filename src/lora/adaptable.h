#pragma once

#include <string>

#include "model/base_info.h"

namespace patchbay {

/// Refuses, by LoadError, a target that the base's graph reads but that no adapter may change. Both
/// file formats ask here. `path` is the adapter's, `item` what it calls the target.
void check_adaptable(const std::string &path, const std::string &item, const AdaptableUse &use);

}  // namespace patchbay
