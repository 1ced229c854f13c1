#include "server/served_chat.h"

#include <fmt/format.h>

#include "base/log.h"
#include "engine/adapter_chat_templates.h"

namespace patchbay {

void read_chat_templates(const std::filesystem::path &path, RegisteredAdapter &entry) {
  try {
    const ChatTemplateSet set = read_adapter_chat_templates(path);
    if (!set.sources.empty()) entry.chat = std::make_shared<const ChatTemplates>(set);
  } catch (const LoadError &error) {
    entry.chat_problem = error.what();
    log().warn("{}: its chat template cannot be used: {}", entry.name, error.what());
  }
}

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
