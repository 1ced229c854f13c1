#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "chat/tool_call_style.h"

namespace patchbay {

/// What an answer has to be of so that it is calls and nothing else, for Request's members of these
/// names.
struct ToolCallGrammar {
  std::string grammar;  ///< over the rule json_schema; empty: the schema alone
  std::string json_schema;
};

/// Calls of any of `tools` (OpenAI's objects, checked by read_tools()); at least one, and with
/// `parallel` more where the style has a way to write them. REQUIRES: a style. invalid_argument: a
/// tool's parameters cannot be honoured, with the tool's number and the JSON pointer.
[[nodiscard]] Expected<ToolCallGrammar> tool_call_grammar(ToolCallStyle style,
                                                          const nlohmann::ordered_json &tools,
                                                          bool parallel);

}  // namespace patchbay
