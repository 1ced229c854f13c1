#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "chat/chat_templates.h"
#include "lora/adapter_registry.h"

namespace patchbay {

/// How the models that the server has are spoken to.
struct ServedChat {
  std::shared_ptr<const ChatTemplates> base{};  ///< null: the base cannot be
  std::string problem{};                        ///< why
  bool with_adapters = true;                    ///< an adapter's own templates go before the base's
  std::optional<ToolCallStyle> calls{};         ///< none: as each template shows
};

/// The templates for a request that names `adapter`, or none (null). invalid_argument: there are
/// none that can be used, and what to do about it.
[[nodiscard]] Expected<std::shared_ptr<const ChatTemplates>> choose_chat_templates(
    const ServedChat &chat, const RegisteredAdapter *adapter);

}  // namespace patchbay
