#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/char_network.h"

namespace patchbay {

/// The texts in which a JSON schema's `pattern` is found: a regular expression of ECMA-262 without
/// what is not regular or depends on more than the characters. It is read so that whatever is of
/// the network is found by ECMA-262 and by Python's `re`: \d and \w are ASCII, \D and \W are the
/// other ASCII characters. invalid_argument, with the byte: lookaround, back references, word
/// boundaries, \p, flags, anchors inside groups, and what is no pattern.
[[nodiscard]] Expected<CharNetwork> parse_pattern(std::string_view pattern);

}  // namespace patchbay
