#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "gguf/safetensors_file.h"

namespace patchbay {

// The two files of a PEFT folder.
inline constexpr const char *k_peft_config = "adapter_config.json";
inline constexpr const char *k_peft_weights = "adapter_model.safetensors";

/// How to get rid of a pickle file, which is never read because it may run code.
inline constexpr const char *k_recipe_for_pickle =
    "convert it to safetensors: python -c \"import torch, safetensors.torch as s; "
    "s.save_file({k: v.contiguous() for k, v in torch.load('adapter_model.bin', "
    "weights_only=True).items()}, 'adapter_model.safetensors')\"";

/// The folder of a PEFT adapter that is named by itself or by one of its files; nullopt for any
/// other file. Throws LoadError for a folder of another kind, saying what it is.
[[nodiscard]] std::optional<std::filesystem::path> find_peft_folder(
    const std::filesystem::path &path);

/// Opens adapter_model.safetensors. Throws LoadError, also when it is missing, saying what lies in
/// its place.
[[nodiscard]] SafetensorsFile open_peft_weights(const std::filesystem::path &folder);

/// What an adapter is called by default: the last component, also of "." and "name/".
[[nodiscard]] std::string folder_name(const std::filesystem::path &folder);

}  // namespace patchbay
