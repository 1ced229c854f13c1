#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/vocab.h"

namespace patchbay {

/// The control or user-defined tokens of `vocab` that chat models end an answer with, by their
/// spelling; sorted. Files name one EOS, often the one of pre-training, while the chat template
/// ends turns with another token.
[[nodiscard]] std::vector<int32_t> find_end_of_generation(const Vocab &vocab);

}  // namespace patchbay
