#pragma once

#include <filesystem>
#include <memory>

#include "lora/adapter.h"

namespace patchbay {

/// Reads a PEFT folder: adapter_config.json first, then adapter_model.safetensors. Throws
/// LoadError. Any thread.
[[nodiscard]] std::shared_ptr<Adapter> load_peft_adapter(const std::filesystem::path &folder,
                                                         const BaseInfo &base,
                                                         const AdapterLoadOptions &options = {});

}  // namespace patchbay
