#pragma once

#include <string_view>

#include "base/error.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// Reads a grammar in GBNF, the notation of llama.cpp's grammars (its grammars/README.md): rules
/// `name ::= ...` of "literals", [classes], . for any character, (groups), | and the repetitions
/// ? * + {n} {m,n} {m,}; # begins a comment; the whole text is of rule `root`. A rule goes on over
/// line ends inside a group, after `::=`, after `|`, and where the next line begins with `|`.
/// invalid_argument, with line and column: what is not of this form, a rule that is named and not
/// defined or defined twice, no root.
[[nodiscard]] Expected<grammar::Rules> parse_gbnf(std::string_view text);

/// The same with a rule `json_schema` that is there already, the root of `schema`. It must be used.
[[nodiscard]] Expected<grammar::Rules> parse_gbnf_over_schema(std::string_view text,
                                                              grammar::Rules schema);

}  // namespace patchbay
