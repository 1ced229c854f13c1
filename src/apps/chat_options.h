#pragma once

#include <CLI/CLI.hpp>

#include "apps/commands.h"

namespace patchbay {

/// How the model is spoken to.
void add_chat_options(CLI::App &app, ChatArguments &chat);

/// How calls of tools are told from other text.
void add_tool_option(CLI::App &app, ChatArguments &chat);

}  // namespace patchbay
