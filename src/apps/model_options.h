#pragma once

#include <CLI/CLI.hpp>

#include "apps/commands.h"

namespace patchbay {

/// What adapters may be beyond what is safe for everybody. `options` outlives the app.
void add_adapter_load_options(CLI::App &app, AdapterLoadOptions &options);
/// --lora and --lora-scaled. `loras` outlives the app.
void add_lora_options(CLI::App &app, std::vector<LoraItem> &loras);

/// The options of every command that computes: the model, its adapters, how. `arguments` outlives
/// the app.
void add_model_options(CLI::App &app, ModelArguments &arguments);

}  // namespace patchbay
