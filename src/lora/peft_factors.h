#pragma once

#include <memory>

#include "gguf/safetensors_file.h"
#include "lora/adapter.h"
#include "model/hf_names.h"

namespace patchbay {

/// A matrix or vector of the file in ggml order, checked to be finite. F32, F16 and BF16 stay views
/// of the file. Throws LoadError: another dtype, NaN, infinity, a number that overflows F32.
/// REQUIRES: one or two dimensions.
[[nodiscard]] Factor read_factor(const std::shared_ptr<const SafetensorsFile> &file,
                                 const SafeTensor &tensor);

/// The rows of a matrix, or the numbers of a vector [n], in the order of the base's.
[[nodiscard]] Factor planned_rows(Factor factor, const BaseInfo &base, RowPlan plan);

}  // namespace patchbay
