#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace patchbay {

/// --chat-template and --chat-template-file: a template's name or text, for `chat_template`.
void add_chat_template_options(CLI::App &app, std::string &chat_template);

}  // namespace patchbay
