#pragma once

#include <optional>
#include <string_view>

namespace patchbay {

/// How a model writes calls of tools into its answers.
enum class ToolCallStyle {
  none,    ///< in no way that is known here: everything is text
  hermes,  ///< <tool_call>{"name", "arguments"}</tool_call>, as Hermes and Qwen do
  llama3,  ///< {"name", "parameters"} and nothing else, maybe behind <|python_tag|>
};

/// The style that a chat template teaches, from its text.
[[nodiscard]] ToolCallStyle detect_tool_call_style(std::string_view template_text);

/// "none", "hermes", "llama3"; nullopt for anything else.
[[nodiscard]] std::optional<ToolCallStyle> parse_tool_call_style(std::string_view name);

/// What stands in front of a call; of Llama's, what may.
[[nodiscard]] std::string_view opening_tag(ToolCallStyle style);
/// What stands behind it; empty: nothing.
[[nodiscard]] std::string_view closing_tag(ToolCallStyle style);

}  // namespace patchbay
