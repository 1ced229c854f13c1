#pragma once

#include <CLI/CLI.hpp>

#include "apps/commands.h"

namespace patchbay {

/// The options of `patchbay serve`. `arguments` outlives the app.
CLI::App *add_serve(CLI::App &app, ServeArguments &arguments);

}  // namespace patchbay
