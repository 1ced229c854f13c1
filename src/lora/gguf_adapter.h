#pragma once

#include <filesystem>
#include <memory>

#include "lora/adapter.h"

namespace patchbay {

/// Reads a GGUF adapter in the form that llama.cpp writes and reads. Throws LoadError. Any thread.
[[nodiscard]] std::shared_ptr<Adapter> load_gguf_adapter(const std::filesystem::path &path,
                                                         const BaseInfo &base,
                                                         const AdapterLoadOptions &options = {});

}  // namespace patchbay
