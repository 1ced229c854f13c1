#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace patchbay {

/// A chat template as its file spells it, for ChatTemplate::parse.
struct ChatTemplateSource {
  std::string name;  ///< "default", "tool_use", ...
  std::string text;
  std::string path;
  std::string item;  ///< where in the file: a metadata key, a JSON key; empty when it is all of it
};

/// The templates of a model or an adapter, each name once.
struct ChatTemplateSet {
  static constexpr std::string_view k_default = "default";
  static constexpr std::string_view k_tool_use = "tool_use";

  std::vector<ChatTemplateSource> sources;

  /// Null when there is none of that name.
  [[nodiscard]] const ChatTemplateSource *find(std::string_view name) const;

  /// The one for a request, as transformers chooses: "tool_use" for one with tools, when there is
  /// such a template, else "default". Null when there is neither.
  [[nodiscard]] const ChatTemplateSource *choose(bool has_tools) const;
};

/// Reads `tokenizer.chat_template`, and each `tokenizer.chat_template.NAME` whether
/// `tokenizer.chat_templates` lists it or not. Throws LoadError: one that is no text, or is listed
/// but not there.
[[nodiscard]] ChatTemplateSet read_chat_templates(const GgufFile &file);

}  // namespace patchbay
