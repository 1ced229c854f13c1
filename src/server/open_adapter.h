#pragma once

#include <filesystem>
#include <string>

#include "lora/adapter_registry.h"
#include "patchbay/model.hpp"

namespace patchbay {

/// Loads an adapter as a registry takes it, with the chat templates of its folder; notes about it
/// go to the log. Templates that cannot be read do not keep it from being loaded: whoever chats
/// with it is told. Throws LoadError and std::bad_alloc.
[[nodiscard]] RegisteredAdapter open_adapter(const Model &model, const std::string &name,
                                             const std::filesystem::path &path);

}  // namespace patchbay
