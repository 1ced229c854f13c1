#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace patchbay {

namespace jinja {
struct Template;
}

/// A chat template: turns messages into the text that a model was trained on. The language is
/// Jinja as transformers sets it up (docs/chat-templates.md). Immutable; any thread.
class ChatTemplate {
 public:
  /// `path` and `item` say in messages where the template comes from. Throws LoadError with its
  /// line when it cannot be read.
  [[nodiscard]] static ChatTemplate parse(std::string_view source, const std::string &path,
                                          const std::string &item);

  /// What a template sees by name. `messages`: an array of objects; `tools`: an array, or null for
  /// none. `context`: an object of everything else, such as `add_generation_prompt`, `bos_token`,
  /// `documents` and a request's own variables, which replaces what is set otherwise. `now`: what
  /// strftime_now tells.
  struct Input {
    const nlohmann::ordered_json &messages;
    const nlohmann::ordered_json &tools;
    const nlohmann::ordered_json &context;
    std::chrono::system_clock::time_point now;
  };

  /// Fails with invalid_argument and the words of raise_exception when the template refuses the
  /// messages; with the line and the reason when it cannot be carried out, also because it would
  /// take too long or too much.
  [[nodiscard]] Expected<std::string> render(const Input &input) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Template> parsed)
      : parsed_(std::move(parsed)) {}

  std::shared_ptr<const jinja::Template> parsed_;
};

}  // namespace patchbay
