#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "grammar/char_network.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

// JSON as grammars write it: one blank at most, and only after a comma or a colon, so that no
// answer can go on for ever with blanks.

/// "," or ":" and maybe a blank.
[[nodiscard]] grammar::Expr json_separator(char mark);

/// One character of any string, in every spelling that JSON has for it, but no unpaired surrogates.
[[nodiscard]] grammar::Expr json_any_char();

/// A string whose characters come from the network, each in one spelling: itself, or the shortest
/// escape where JSON wants one.
[[nodiscard]] grammar::Expr json_string_of(const CharNetwork &network);

/// One string, spelled likewise.
[[nodiscard]] grammar::Expr json_exact_string(const std::string &text);

/// One value; the members of objects in their order.
[[nodiscard]] grammar::Expr json_exact_value(const nlohmann::ordered_json &value);

}  // namespace patchbay
