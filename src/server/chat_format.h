#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/tool_call_parser.h"
#include "server/chat_request.h"
#include "server/generate.h"
#include "server/openai_format.h"

namespace patchbay {

/// Answers as OpenAI's chat completions: messages, or deltas of them.
class ChatFormat final : public AnswerFormat {
 public:
  struct Options {
    bool with_logprobs = false;
    bool stream = false;
    bool include_usage = false;
    uint32_t n_choices = 1;
  };

  /// `service` outlives the object.
  ChatFormat(const Service &service, ChatRequest chat, const Options &options);

  [[nodiscard]] std::optional<Error> prepare(const AdapterChoice &choice,
                                             Request &request) override;
  void choose(const AdapterChoice &choice) override;
  [[nodiscard]] HttpResponse whole(const Answers &answers) override;
  [[nodiscard]] std::string begin() override;
  [[nodiscard]] std::string token(const TokenEvent &event) override;
  [[nodiscard]] std::string choice_end(const ChoiceEnd &end) override;
  [[nodiscard]] std::string end(const Usage &usage) override;

 private:
  [[nodiscard]] Json message(const Answer &answer, ToolCallParser &parser) const;
  [[nodiscard]] Json logprob(const TokenEvent &event) const;
  [[nodiscard]] std::string chunks(uint32_t i_choice, const std::vector<AnswerDelta> &deltas,
                                   Json logprobs) const;
  [[nodiscard]] std::string chunk(uint32_t i_choice, Json delta, Json logprobs, Json reason) const;

  const Service &service_;
  ChatRequest chat_;
  Options options_;
  OpenAiAnswer answer_;
  std::vector<ToolCallParser> parsers_;  // one for each choice
};

}  // namespace patchbay
