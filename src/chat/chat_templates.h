#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chat/tool_call_style.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/chat_template_set.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {

/// A template with what its use of messages tells. Immutable; any thread.
struct KnownChatTemplate {
  std::string text;
  ChatTemplate parsed;
  /// It shows contents only that are lists of parts.
  bool wants_parts = false;
  ToolCallStyle style = ToolCallStyle::none;  ///< in which it shows tools' calls

  /// Whether the word stands anywhere in it.
  [[nodiscard]] bool mentions(std::string_view word) const {
    return text.find(word) != std::string::npos;
  }
};

/// What a model or an adapter is spoken to with. Immutable; any thread.
class ChatTemplates {
 public:
  /// Those of the set that requests use. Throws LoadError: one cannot be read.
  explicit ChatTemplates(const ChatTemplateSet &set);
  /// One for everything. Throws LoadError with the name `origin`.
  ChatTemplates(std::string text, const std::string &origin);

  /// For a request with tools, or one without. Null: there is none.
  [[nodiscard]] const KnownChatTemplate *choose(bool has_tools) const;

 private:
  std::optional<KnownChatTemplate> default_;
  std::optional<KnownChatTemplate> tool_use_;
};

/// A name of builtin_chat_templates(), or a template's own text. Throws std::invalid_argument: no
/// template has that name; LoadError: the text cannot be read.
[[nodiscard]] std::shared_ptr<const ChatTemplates> chat_templates_of(
    const std::string &name_or_text);

/// Those of the model's file; without any, ChatML if the vocabulary has its tokens; else null.
/// Throws LoadError: they cannot be read.
[[nodiscard]] std::shared_ptr<const ChatTemplates> model_chat_templates(const GgufFile &file,
                                                                        const Tokenizer &tokenizer);

}  // namespace patchbay
