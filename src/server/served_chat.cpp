#include "server/served_chat.h"

#include <fmt/format.h>

namespace patchbay {

Expected<std::shared_ptr<const ChatTemplates>> choose_chat_templates(
    const ServedChat &chat, const RegisteredAdapter *adapter) {
  if (adapter != nullptr && chat.with_adapters) {
    if (adapter->chat != nullptr) return adapter->chat;
    if (!adapter->chat_problem.empty()) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("the chat template of '{}' cannot be used: {} (the base's is used "
                              "with --no-adapter-chat-templates)",
                              adapter->name, adapter->chat_problem));
    }
  }
  if (chat.base != nullptr) return chat.base;
  return fail(ErrorCode::invalid_argument,
              fmt::format("{}: give one with --chat-template NAME or --chat-template-file "
                          "FILE, or send finished prompts as completions",
                          chat.problem));
}

}  // namespace patchbay
