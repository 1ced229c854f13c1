#pragma once

#include <memory>
#include <vector>

#include "gguf/safetensors_file.h"
#include "lora/adapter.h"
#include "lora/peft_config.h"
#include "lora/peft_modules.h"

namespace patchbay {

/// Brings the pairs of a PEFT file into the form of the base: names, shapes, row order, stacked
/// experts, scales. Names and shapes are checked before the first number is read. Throws LoadError:
/// what place_modules and check_shapes refuse, a dtype that is no float, NaN, infinity, overflow,
/// tied pairs that differ.
[[nodiscard]] std::vector<FactorPair> make_pairs(const PeftConfig &config,
                                                 const std::shared_ptr<const SafetensorsFile> &file,
                                                 const PeftModules &modules, const BaseInfo &base);

}  // namespace patchbay
