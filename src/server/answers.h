#pragma once

#include <optional>
#include <string>
#include <vector>

#include "patchbay/request.hpp"

namespace patchbay {

/// One answer, put together from its events.
struct Answer {
  std::string text;
  std::vector<TokenEvent> tokens;  ///< as they came; an ending one included
  StopReason reason = StopReason::length;
};

/// All of a request's, when it has ended.
struct Answers {
  std::vector<Answer> choices;
  Usage usage;
};

/// Collects the events of a request with `n_choices` answers.
class AnswerCollector {
 public:
  explicit AnswerCollector(uint32_t n_choices) { answers_.choices.resize(n_choices); }

  /// True when that was the last one.
  bool add(Event event);
  /// Why there are no answers; only after the last event.
  [[nodiscard]] const std::optional<Error> &error() const { return error_; }
  [[nodiscard]] Answers take() { return std::move(answers_); }

 private:
  Answers answers_;
  std::optional<Error> error_;
};

}  // namespace patchbay
