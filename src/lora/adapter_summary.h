#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lora/adapter.h"

namespace patchbay {

/// Brings the parts of a complete adapter into their final form: sorts them, works out what they
/// change against the base, adds up the bytes, takes the digest, finds out whether it can change
/// anything. Whatever makes an adapter ends with this.
void finish_adapter(Adapter &adapter, const BaseInfo &base);

/// What an adapter has beside plain pairs, in words, with counts.
[[nodiscard]] std::vector<std::string> describe_extras(const Adapter &adapter);

/// Notes when the adapter says that it was trained on a base of another name.
void note_other_base(Adapter &adapter, const BaseInfo &base);

/// Whether two names of a model clearly mean different ones: no word in common, or both state a
/// size ("7b") and the sizes differ. Only a hint: names in files are free text. An empty name
/// differs from nothing.
[[nodiscard]] bool names_differ_clearly(std::string_view one, std::string_view other);

}  // namespace patchbay
