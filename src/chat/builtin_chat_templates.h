#pragma once

#include <span>
#include <string_view>

namespace patchbay {

struct BuiltinChatTemplate {
  std::string_view name;
  std::string_view text;
};

/// Forms of widely used families, for models whose files bring no template; most are called as
/// llama-server calls them. In the order of their names.
[[nodiscard]] std::span<const BuiltinChatTemplate> builtin_chat_templates();

/// The text of one; empty when there is none of that name.
[[nodiscard]] std::string_view find_builtin_chat_template(std::string_view name);

}  // namespace patchbay
