#pragma once

#include <CLI/CLI.hpp>

#include "apps/commands.h"

namespace patchbay {

/// The options of every command that computes: the model, its adapters, how. `arguments` outlives
/// the app.
void add_model_options(CLI::App &app, ModelArguments &arguments);

}  // namespace patchbay
