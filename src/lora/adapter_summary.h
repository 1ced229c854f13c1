#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// Brings the parts of a read adapter into their final form: sorts the pairs, adds up the bytes,
/// finds out whether it can change anything, notes a base of another name. Both file formats end
/// here.
void finish_adapter(Adapter &adapter, const BaseInfo &base);

/// Whether two names of a model clearly mean different ones: no word in common, or both state a
/// size ("7b") and the sizes differ. Only a hint: names in files are free text. An empty name
/// differs from nothing.
[[nodiscard]] bool names_differ_clearly(std::string_view one, std::string_view other);

/// "a, b, c, d, e and 3 more": the first five of a list, for messages.
[[nodiscard]] std::string first_five(const std::vector<std::string> &names);

}  // namespace patchbay
