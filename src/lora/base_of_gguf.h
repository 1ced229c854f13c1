#pragma once

#include "gguf/gguf_file.h"
#include "model/base_info.h"

namespace patchbay {

/// What adapters of a model file must fit, for an architecture that has a table of names but no
/// graph here: its uses are the weights in the file that the table names. Throws LoadError: no such
/// table, no block count or heads, no token_embd.weight.
[[nodiscard]] BaseInfo base_of_gguf(const GgufFile &file);

}  // namespace patchbay
