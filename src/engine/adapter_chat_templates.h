#pragma once

#include <filesystem>

#include "tokenizer/chat_template_set.h"

namespace patchbay {

/// The chat templates that a PEFT folder brings of its own: `chat_template.jinja`, else
/// `chat_template` of tokenizer_config.json, a text or a list of {name, template}. Empty when it
/// has neither, and for an adapter that is no folder. Throws LoadError when one is there but not as
/// it should be.
[[nodiscard]] ChatTemplateSet read_adapter_chat_templates(const std::filesystem::path &adapter);

}  // namespace patchbay
