#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"
#include "lora/adapter.h"

namespace patchbay {

/// Reads what a GGUF adapter holds beside its pairs, which are there already: tensors named after
/// one of the base with `.patchbay_<role>`, and norms under the base's own names, as llama.cpp's
/// converter writes them.
///
/// | role       | tensor                                  |                                      |
/// |------------|-----------------------------------------|--------------------------------------|
/// | dora_m     | F32 [n_out], experts [n_out, n_expert]  | FactorPair::magnitude of the pair     |
/// | lora_bias  | F32 [n_out]                             | FactorPair::bias of the pair          |
/// | bias       | [n_out], named after the weight         | the new bias                         |
/// | norm       | [n]                                     | the new weight of the norm           |
/// | rows       | [n_embd, n_rows], with row_ids I32      | new rows of a table                  |
/// | weight     | of the base's shape                     | a whole new matrix                   |
///
/// REQUIRES: check_extra_names(). Throws LoadError: a shape or type that does not fit, no such
/// tensor in the base, a part of a pair without the pair.
void read_gguf_extras(const std::shared_ptr<const GgufFile> &file,
                      const std::vector<const GgufTensor *> &tensors, const BaseInfo &base,
                      Adapter &adapter);

/// Whether a tensor's name ends in one of these roles.
[[nodiscard]] bool is_extra_name(std::string_view tensor);

/// Refuses, by LoadError, a tensor whose name is of no such form.
void check_extra_names(const GgufFile &file, const std::vector<const GgufTensor *> &tensors,
                       const BaseInfo &base);

}  // namespace patchbay
