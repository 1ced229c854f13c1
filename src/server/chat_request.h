#pragma once

#include <optional>
#include <set>
#include <string>

#include "chat/chat_prompt.h"
#include "patchbay/request.hpp"
#include "server/adapter_choice.h"
#include "server/json_fields.h"
#include "server/service.h"

namespace patchbay {

/// What a request for a chat says of messages and tools.
struct ChatRequest {
  Conversation conversation;
  enum class Calls {
    never,
    maybe,
    always,
  };
  Calls calls = Calls::never;
  std::string tool{};  ///< which alone may be called; empty: any
  bool parallel = true;
};

/// The fields messages, tools, tool_choice, parallel_tool_calls, chat_template_kwargs,
/// add_generation_prompt and continue_final_message. Errors stay in `fields`.
[[nodiscard]] ChatRequest read_chat_request(JsonFields &fields);

/// The template for a request that turned out to wear this. As choose_chat_templates(), and for a
/// model without a tokenizer.
[[nodiscard]] Expected<const KnownChatTemplate *> template_for(const Service &service,
                                                               const AdapterChoice &choice,
                                                               const ChatRequest &chat);

/// How the answers' text is to be read.
struct ChatAnswerForm {
  ToolCallStyle style = ToolCallStyle::none;
  std::set<std::string> tools{};
  uint32_t n_calls_max = 0;  ///< per answer
  bool is_certain = false;   ///< the text is held to the calls' grammar
};

/// Gives the request its prompt and, where calls are a must, their grammar. invalid_argument: what
/// chat_text() refuses; calls in a style that is not known; parameters that cannot be honoured.
[[nodiscard]] Expected<ChatAnswerForm> complete_request(const Service &service,
                                                        const AdapterChoice &choice,
                                                        const ChatRequest &chat, Request &request);

}  // namespace patchbay
