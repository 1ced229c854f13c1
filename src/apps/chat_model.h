#pragma once

#include <string>
#include <vector>

#include "apps/commands.h"
#include "engine/loaded_model.h"
#include "patchbay/model.hpp"
#include "server/served_chat.h"

namespace patchbay {

/// How the model is spoken to, by the command line or by its file; what is wrong with the file is
/// said when somebody speaks. Throws LoadError and std::invalid_argument: what the command line
/// names cannot be used.
[[nodiscard]] ServedChat open_chat(const ChatArguments &arguments, const LoadedModel &model);

/// Loads the adapters of the arguments, with the chat templates that they bring; notes about them
/// go to the log. Throws LoadError.
[[nodiscard]] std::vector<RegisteredAdapter> open_named_adapters(
    const Model &model, const std::vector<LoraItem> &items);

}  // namespace patchbay
