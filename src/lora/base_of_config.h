#pragma once

#include <filesystem>

#include "model/base_info.h"

namespace patchbay {

/// What adapters must fit, told by the config.json of a Hugging Face model (`text_config` of a
/// multimodal one): the weights that its GGUF file would have. No weight is read. Throws LoadError:
/// no config.json, a model_type without a table of names, a size that is missing or absurd.
[[nodiscard]] BaseInfo base_of_config(const std::filesystem::path &folder);

}  // namespace patchbay
