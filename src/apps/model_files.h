#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/commands.h"

namespace patchbay {

/// The model that commands use without -m: $PATCHBAY_MODEL, else models/ of the user's data folder,
/// else the one that scripts/setup put into the source tree. Throws LoadError that says where it
/// was looked for.
[[nodiscard]] std::string default_model();

/// Loads the model with a progress line on a terminal.
[[nodiscard]] std::shared_ptr<const Model> open_model(const ModelArguments &arguments);

/// Loads the adapters of the arguments, named, in their order; notes about them go to the log.
[[nodiscard]] std::vector<WornAdapter> open_adapters(const Model &model,
                                                     const std::vector<LoraItem> &items);

}  // namespace patchbay
