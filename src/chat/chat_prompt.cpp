#include "chat/chat_prompt.h"

#include <algorithm>
#include <chrono>

#include "chat/chat_messages.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// The names that transformers gives special tokens, for those that the model has.
Json make_variables(const Tokenizer &tokenizer, const Conversation &conversation) {
  Json variables = Json::object();
  const auto add = [&](const char *name, const std::optional<int32_t> &token) {
    if (token) variables[name] = std::string(tokenizer.piece(*token));
  };
  add("bos_token", tokenizer.special().bos);
  add("eos_token", tokenizer.special().eos);
  add("unk_token", tokenizer.special().unk);
  add("pad_token", tokenizer.special().pad);
  variables["add_generation_prompt"] =
      conversation.add_generation_prompt && !conversation.continue_final_message;
  variables.update(conversation.variables);
  return variables;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view k_blanks = " \t\r\n\v\f";
  const size_t begin = std::min(text.find_first_not_of(k_blanks), text.size());
  return text.substr(begin, text.find_last_not_of(k_blanks) + 1 - begin);
}

/// The text up to the end of the last message, which the template may have trimmed.
Expected<std::string> cut_after_final_message(std::string text, const Json &messages) {
  const auto refuse = [](const char *words) {
    return fail(ErrorCode::invalid_argument, std::string("continue_final_message: ") + words);
  };
  if (messages.empty()) return refuse("there is no message");
  const Json &content = messages.back()["content"];
  if (content.empty()) return refuse("the last message is empty");
  const std::string final_text =
      content.is_array() ? content.back()["text"].get<std::string>() : content.get<std::string>();
  const std::string_view core = trimmed(final_text);
  if (core.empty()) return refuse("the last message is empty");
  const size_t at = text.rfind(core);
  if (at == std::string::npos) return refuse("the chat template does not show the last message");
  const std::string_view with_end =
      std::string_view(final_text).substr(static_cast<size_t>(core.data() - final_text.data()));
  const bool has_end = std::string_view(text).substr(at).starts_with(with_end);
  text.resize(at + (has_end ? with_end.size() : core.size()));
  return text;
}

}  // namespace

Expected<std::string> chat_text(const KnownChatTemplate &chat_template, const Tokenizer &tokenizer,
                                const Conversation &conversation) {
  if (!conversation.tools.is_null() && !chat_template.mentions("tools")) {
    return fail(ErrorCode::invalid_argument,
                "tools would not be shown by this model's chat template: give another one, "
                "for instance --chat-template hermes");
  }
  const auto messages = messages_for(chat_template, conversation.messages);
  if (!messages) return tl::unexpected(messages.error());
  const Json variables = make_variables(tokenizer, conversation);
  auto text = chat_template.parsed.render({.messages = *messages,
                                           .tools = conversation.tools,
                                           .context = variables,
                                           .now = std::chrono::system_clock::now()});
  if (!text || !conversation.continue_final_message) return text;
  return cut_after_final_message(*std::move(text), *messages);
}

std::vector<int32_t> chat_tokens(const Tokenizer &tokenizer, std::string_view text) {
  auto tokens = tokenizer.encode(text, {.add_special = false});
  const auto bos = tokenizer.special().bos;
  if (bos && tokenizer.adds_bos() && (tokens.empty() || tokens.front() != *bos))
    tokens.insert(tokens.begin(), *bos);
  return tokens;
}

}  // namespace patchbay
