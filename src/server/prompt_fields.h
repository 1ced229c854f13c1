#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/loaded_model.h"
#include "server/json_fields.h"
#include "server/service.h"

namespace patchbay {

/// A prompt as tokens_of() reads it, special tokens added. A text that no context could hold is
/// refused, as context_overflow, before time is spent on its tokens.
[[nodiscard]] std::optional<std::vector<int32_t>> prompt_tokens_of(JsonFields &fields,
                                                                   const char *name,
                                                                   const Json &value,
                                                                   const Service &service);

/// Bytes of text that one token stands for at most.
[[nodiscard]] size_t longest_piece_of(const LoadedModel &model);

}  // namespace patchbay
