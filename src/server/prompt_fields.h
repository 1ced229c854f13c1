#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/loaded_model.h"
#include "server/json_fields.h"
#include "server/service.h"

namespace patchbay {

/// Whether a text of that size can be a prompt. context_overflow: no context could hold it, and no
/// time needs to be spent on its tokens.
[[nodiscard]] Expected<void> check_prompt_size(size_t n_bytes, const Service &service);

/// A prompt as tokens_of() reads it, special tokens added. A text is
/// checked by check_prompt_size() first.
[[nodiscard]] std::optional<std::vector<int32_t>> prompt_tokens_of(JsonFields &fields,
                                                                   const char *name,
                                                                   const Json &value,
                                                                   const Service &service);

/// Bytes of text that one token stands for at most.
[[nodiscard]] size_t longest_piece_of(const LoadedModel &model);

}  // namespace patchbay
