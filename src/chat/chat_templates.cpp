#include "chat/chat_templates.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "chat/builtin_chat_templates.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// Whether a message with this content can be seen in what the template makes of it.
bool shows(const ChatTemplate &parsed, std::string_view word, const Json &content) {
  const Json messages = Json::array({{{"role", "user"}, {"content", content}}});
  const Json none;
  const Json context{{"add_generation_prompt", true}, {"bos_token", ""}, {"eos_token", ""}};
  const auto text = parsed.render({.messages = messages,
                                   .tools = none,
                                   .context = context,
                                   .now = std::chrono::system_clock::now()});
  return text && text->find(word) != std::string::npos;
}

/// Most templates show a content that is text; some only the texts of a list.
bool wants_parts(const ChatTemplate &parsed) {
  constexpr std::string_view k_word = "patchbay7probe";
  if (shows(parsed, k_word, k_word)) return false;
  return shows(parsed, k_word, Json::array({{{"type", "text"}, {"text", k_word}}}));
}

KnownChatTemplate know(const ChatTemplateSource &source) {
  ChatTemplate parsed = ChatTemplate::parse(source.text, source.path, source.item);
  const bool parts = wants_parts(parsed);
  return {.text = source.text,
          .parsed = std::move(parsed),
          .wants_parts = parts,
          .style = detect_tool_call_style(source.text)};
}

std::string builtin_names() {
  std::string names;
  for (const auto &builtin : builtin_chat_templates())
    names += (names.empty() ? "" : ", ") + std::string(builtin.name);
  return names;
}

}  // namespace

ChatTemplates::ChatTemplates(const ChatTemplateSet &set) {
  const auto *source = set.find(ChatTemplateSet::k_default);
  if (source != nullptr) default_.emplace(know(*source));
  source = set.find(ChatTemplateSet::k_tool_use);
  if (source != nullptr) tool_use_.emplace(know(*source));
}

ChatTemplates::ChatTemplates(std::string text, const std::string &origin)
    : default_(know({.name = {}, .text = std::move(text), .path = origin, .item = {}})) {}

const KnownChatTemplate *ChatTemplates::choose(bool has_tools) const {
  if (has_tools && tool_use_) return &*tool_use_;
  return default_ ? &*default_ : nullptr;
}

std::shared_ptr<const ChatTemplates> chat_templates_of(const std::string &name_or_text) {
  const bool is_text =
      name_or_text.find("{{") != std::string::npos || name_or_text.find("{%") != std::string::npos;
  if (is_text) return std::make_shared<const ChatTemplates>(name_or_text, "--chat-template");
  const std::string_view builtin = find_builtin_chat_template(name_or_text);
  if (builtin.empty()) {
    throw std::invalid_argument(
        fmt::format("there is no chat template '{}'; known are {}", name_or_text, builtin_names()));
  }
  return std::make_shared<const ChatTemplates>(std::string(builtin), name_or_text);
}

std::shared_ptr<const ChatTemplates> model_chat_templates(const GgufFile &file,
                                                          const Tokenizer &tokenizer) {
  const ChatTemplateSet set = read_chat_templates(file);
  if (set.choose(/*has_tools=*/true) != nullptr) return std::make_shared<const ChatTemplates>(set);
  const bool has_chatml = tokenizer.find("<|im_start|>") && tokenizer.find("<|im_end|>");
  return has_chatml ? chat_templates_of("chatml") : nullptr;
}

}  // namespace patchbay
