#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// The texts that a JSON schema (draft 2020-12) allows, written in one way: members in the order of
/// `properties`, one blank at most after commas and colons. Every such text is valid under the
/// schema. docs/structured-output.md says what is supported. invalid_argument, with the JSON
/// pointer: everything else.
[[nodiscard]] Expected<grammar::Rules> json_schema_rules(std::string_view schema);

}  // namespace patchbay
