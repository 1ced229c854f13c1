#pragma once

#include <filesystem>
#include <memory>

#include "lora/adapter.h"

namespace patchbay {

/// Reads a PEFT folder: adapter_config.json first, then adapter_model.safetensors. Throws
/// LoadError. Any thread.
[[nodiscard]] std::shared_ptr<const Adapter> load_peft_adapter(const std::filesystem::path &folder,
                                                               const BaseInfo &base);

/// How to get rid of a pickle file, which is never read because it may run code.
inline constexpr const char *k_recipe_for_pickle =
    "convert it to safetensors: python -c \"import torch, safetensors.torch as s; "
    "s.save_file({k: v.contiguous() for k, v in torch.load('adapter_model.bin', "
    "weights_only=True).items()}, 'adapter_model.safetensors')\"";

}  // namespace patchbay
