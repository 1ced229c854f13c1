#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "patchbay/error.hpp"
#include "server/http_types.h"

namespace patchbay {

/// Whose shape of errors a route has.
enum class ErrorShape {
  openai,       ///< vLLM's and OpenAI's: type, param, numeric code
  vllm_load,    ///< the same, and its fields once more at the top
  llama_server  ///< code, type in snake_case
};

/// An error on its way out.
struct ApiError {
  Error error;
  std::string param{};  ///< field that is wrong; empty: none
  struct Context {
    uint32_t n_tokens_prompt = 0;
    uint32_t n_ctx = 0;
  };
  std::optional<Context> context{};  ///< of a prompt that is too long
};

/// The status of an error. The only place where one becomes the other.
[[nodiscard]] unsigned status_of(ErrorCode code);

[[nodiscard]] HttpResponse error_response(const ApiError &error, ErrorShape shape);
/// The body alone, for an error that comes in a stream that has begun.
[[nodiscard]] std::string error_body(const ApiError &error, ErrorShape shape);

}  // namespace patchbay
