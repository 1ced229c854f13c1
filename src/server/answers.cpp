#include "server/answers.h"

#include <utility>

namespace patchbay {

bool AnswerCollector::add(Event event) {
  if (auto *token = std::get_if<TokenEvent>(&event)) {
    Answer &answer = answers_.choices.at(token->i_choice);
    answer.text += token->text;
    answer.tokens.push_back(std::move(*token));
  } else if (auto *choice_end = std::get_if<ChoiceEnd>(&event)) {
    Answer &answer = answers_.choices.at(choice_end->i_choice);
    answer.text += choice_end->text;
    answer.reason = choice_end->reason;
  } else if (auto *end = std::get_if<RequestEnd>(&event)) {
    answers_.usage = end->usage;
    error_ = std::move(end->error);
    return true;
  }
  return false;
}

}  // namespace patchbay
