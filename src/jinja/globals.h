#pragma once

#include <string>
#include <unordered_map>

#include "jinja/value.h"

namespace patchbay::jinja {

/// What templates know by themselves: range, dict, namespace, cycler, joiner, raise_exception,
/// strftime_now.
[[nodiscard]] std::unordered_map<std::string, Value> make_globals();

}  // namespace patchbay::jinja
