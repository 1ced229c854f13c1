#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/chat_templates.h"
#include "tokenizer/tokenizer.h"

namespace patchbay {

/// What is said to a model.
struct Conversation {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();  ///< OpenAI's
  nlohmann::ordered_json tools{};  ///< OpenAI's, checked by check_tools(); null: none
  /// More variables for the template.
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  bool add_generation_prompt = true;  ///< end where the model's answer begins
  /// End within the last message instead, so that the answer goes on with it.
  bool continue_final_message = false;
};

/// The prompt's text. invalid_argument: what messages_for() and the template refuse, in its words;
/// tools that the template would not show; a last message that cannot be gone on with.
[[nodiscard]] Expected<std::string> chat_text(const KnownChatTemplate &chat_template,
                                              const Tokenizer &tokenizer,
                                              const Conversation &conversation);

/// Its tokens: special tokens are read wherever they are written out, as llama-server and
/// transformers do; BOS stands in front once, whether or not the template writes it. Throws
/// std::length_error as Tokenizer::encode does.
[[nodiscard]] std::vector<int32_t> chat_tokens(const Tokenizer &tokenizer, std::string_view text);

}  // namespace patchbay
