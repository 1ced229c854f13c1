#pragma once

#include <memory>

#include "gguf/gguf_file.h"
#include "lora/adapter.h"

namespace patchbay {

/// A tensor of an adapter file, checked to be finite. F32, F16 and BF16 stay views of the file,
/// other types are dequantised. Throws LoadError: integers, NaN, infinity, a number that overflows
/// F32.
[[nodiscard]] Factor read_factor(const std::shared_ptr<const GgufFile> &file,
                                 const GgufTensor &tensor);

}  // namespace patchbay
