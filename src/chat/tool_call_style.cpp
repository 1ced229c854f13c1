#include "chat/tool_call_style.h"

namespace patchbay {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace

ToolCallStyle detect_tool_call_style(std::string_view template_text) {
  if (has(template_text, "<tool_call>") && has(template_text, "arguments"))
    return ToolCallStyle::hermes;
  const bool is_llama3 = has(template_text, "<|start_header_id|>") ||
                         has(template_text, opening_tag(ToolCallStyle::llama3));
  if (is_llama3 && has(template_text, "\"parameters\"")) return ToolCallStyle::llama3;
  return ToolCallStyle::none;
}

std::optional<ToolCallStyle> parse_tool_call_style(std::string_view name) {
  if (name == "none") return ToolCallStyle::none;
  if (name == "hermes") return ToolCallStyle::hermes;
  if (name == "llama3") return ToolCallStyle::llama3;
  return std::nullopt;
}

std::string_view opening_tag(ToolCallStyle style) {
  switch (style) {
    case ToolCallStyle::hermes:
      return "<tool_call>";
    case ToolCallStyle::llama3:
      return "<|python_tag|>";
    case ToolCallStyle::none:
      break;
  }
  return {};
}

std::string_view closing_tag(ToolCallStyle style) {
  return style == ToolCallStyle::hermes ? "</tool_call>" : std::string_view();
}

}  // namespace patchbay
