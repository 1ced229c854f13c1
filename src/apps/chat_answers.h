#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/interrupts.h"
#include "patchbay/engine.hpp"

namespace patchbay {

struct ChatAnswer {
  std::string text{};
  std::optional<Error> error{};  ///< why there is no more of it; of code cancelled: Ctrl-C
};

/// Answers to several requests at once, computed together. `on_text` gets text as it comes, with
/// the request's number. Ctrl-C ends all of them.
[[nodiscard]] std::vector<ChatAnswer> answer_all(
    Engine &engine, std::vector<Request> requests, Interrupts &interrupts,
    const std::function<void(size_t i_request, std::string_view text)> &on_text);

}  // namespace patchbay
