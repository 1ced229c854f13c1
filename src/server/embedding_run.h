#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/loaded_model.h"
#include "server/adapter_choice.h"
#include "server/exchange.h"
#include "server/service.h"

namespace patchbay {

/// What to embed. Every prompt wears the same adapters, an aLoRA from where it is invoked in each.
struct EmbeddingWish {
  std::vector<std::vector<int32_t>> prompts;
  Pooling pooling = Pooling::mean;
  AdapterWish adapters;
};

struct Embeddings {
  std::vector<std::vector<float>> vectors;  ///< as EmbeddingEvent has them, by prompt
  uint32_t n_tokens = 0;                    ///< of all prompts
  std::string model;                        ///< as answers call it
  std::optional<ApiError> error;
  bool is_gone = false;  ///< nobody waits for an answer any more
};

/// Has the engine embed them, several at a time. Adds what is worn to the answer's head.
[[nodiscard]] asio::awaitable<Embeddings> embed_prompts(Service &service, Exchange &exchange,
                                                        Principal principal, EmbeddingWish wish);

/// What the model's file says (ARCH.pooling_type); else, or when it is for ranking, the mean.
[[nodiscard]] Pooling pooling_of(const LoadedModel &model);

}  // namespace patchbay
