#pragma once

#include "gguf/gguf_file.h"
#include "model/base_info.h"

namespace patchbay {

/// Whether the file holds as one weight what others have as several: q, k and v, or gate and up.
[[nodiscard]] bool has_joined_weights(const GgufFile &file);

/// What adapters of a model file must fit, where no graph here reads it but there is a table of
/// names for its architecture: its uses are the weights in the file that the table names. Throws
/// LoadError: no such table, no block count or heads, no token_embd.weight.
[[nodiscard]] BaseInfo base_of_gguf(const GgufFile &file);

}  // namespace patchbay
