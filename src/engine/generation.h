#pragma once

#include <cstdint>
#include <vector>

#include "engine/executor.h"
#include "engine/spans.h"
#include "patchbay/session.hpp"

namespace patchbay {

/// One request as the generation loop needs it: checked, and its adapters resident in the executor.
struct GenerationRequest {
  std::vector<int32_t> prompt;
  std::vector<AdapterSpan> spans;
  int32_t seq_id = 0;
  uint32_t n_ubatch = 256;  ///< prompt tokens per step
};

/// Computes all of a request's prompt in steps of at most n_ubatch tokens and returns the logits of
/// its last token, or of every token: F32 [n_vocab, 1 or n_tokens]. Throws std::runtime_error when
/// a step fails.
[[nodiscard]] std::vector<float> prefill(Executor &executor, const GenerationRequest &request,
                                         bool all_logits);

/// Prompt, then token after token until a limit or a stop. Fills everything of the result but
/// active_from.
[[nodiscard]] GenerateResult generate(Executor &executor, const GenerationRequest &request,
                                      const GenerateOptions &options, const TextCallback &on_text);

}  // namespace patchbay
