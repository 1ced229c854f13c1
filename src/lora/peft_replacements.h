#pragma once

#include <memory>
#include <vector>

#include "gguf/safetensors_file.h"
#include "lora/adapter.h"
#include "lora/peft_config.h"
#include "lora/peft_modules.h"

namespace patchbay {

/// Brings the tensors of a PEFT file that stand in place of the base's into the form of the base:
/// names, shapes, row order, Gemma's norms, rows of tokens for both uses of a tied table. Throws
/// LoadError: a tensor that the base does not have or that its graph never reads, a shape that does
/// not fit, a dtype that is no float, NaN, infinity, tokens that are not as many as rows.
[[nodiscard]] std::vector<Replacement> make_replacements(
    const PeftConfig &config, const std::shared_ptr<const SafetensorsFile> &file,
    const PeftModules &modules, const BaseInfo &base);

}  // namespace patchbay
