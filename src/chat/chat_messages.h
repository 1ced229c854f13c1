#pragma once

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "chat/chat_templates.h"

namespace patchbay {

/// OpenAI's messages as this template takes them: content as one text (parts joined by line breaks)
/// or as a list of parts, whichever it shows; a missing one of a message with calls as the empty
/// text; calls' arguments as objects; the role developer as system unless the template knows it.
/// Everything else stays as it is. invalid_argument, with the member's place: what is no message,
/// parts that are no text, roles and calls that the template would not show.
[[nodiscard]] Expected<nlohmann::ordered_json> messages_for(const KnownChatTemplate &chat_template,
                                                            const nlohmann::ordered_json &messages);

/// Checks OpenAI's list of tools: functions with different names. invalid_argument, with the
/// member's place.
[[nodiscard]] Expected<void> check_tools(const nlohmann::ordered_json &tools);

}  // namespace patchbay
