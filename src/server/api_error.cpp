#include "server/api_error.h"

#include "server/json_text.h"

namespace patchbay {
namespace {

/// A row of the table in docs/server.md.
struct Row {
  unsigned status;
  const char *openai_type;
  const char *llama_type;
  bool try_again = false;
};

Row row_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return {400, "BadRequestError", "invalid_request_error"};
    case ErrorCode::context_overflow:
      return {400, "BadRequestError", "exceed_context_size_error"};
    case ErrorCode::unauthenticated:
      return {401, "AuthenticationError", "authentication_error"};
    case ErrorCode::permission_denied:
      return {403, "PermissionDeniedError", "permission_error"};
    case ErrorCode::not_found:
      return {404, "NotFoundError", "not_found_error"};
    case ErrorCode::too_large:
      return {413, "BadRequestError", "invalid_request_error"};
    case ErrorCode::queue_full:
      return {429, "RateLimitError", "unavailable_error", true};
    case ErrorCode::unavailable:
    case ErrorCode::deadline_exceeded:
    case ErrorCode::cancelled:
    case ErrorCode::out_of_memory:
      return {503, "ServiceUnavailableError", "unavailable_error", true};
    case ErrorCode::internal:
      break;
  }
  return {500, "InternalServerError", "server_error"};
}

std::string message_of(const Error &error) {
  const bool is_503 = row_of(error.code).status == 503;
  return is_503 ? "Service Unavailable: " + error.message : error.message;
}

Json openai_error(const ApiError &error) {
  const Row row = row_of(error.error.code);
  return {{"message", message_of(error.error)},
          {"type", row.openai_type},
          {"param", error.param.empty() ? Json(nullptr) : Json(error.param)},
          {"code", row.status}};
}

/// Loading routes call what a caller got wrong by another name.
Json load_error(const ApiError &error) {
  Json inner = openai_error(error);
  if (error.error.code == ErrorCode::invalid_argument && error.param != "lora_path")
    inner["type"] = "InvalidUserInput";
  Json body{{"error", inner}};
  body["message"] = inner["message"];
  body["type"] = inner["type"];
  return body;
}

Json llama_error(const ApiError &error) {
  const Row row = row_of(error.error.code);
  Json inner{{"code", row.status}, {"message", message_of(error.error)}, {"type", row.llama_type}};
  if (error.context) {
    inner["n_prompt_tokens"] = error.context->n_tokens_prompt;
    inner["n_ctx"] = error.context->n_ctx;
  }
  return {{"error", inner}};
}

}  // namespace

unsigned status_of(ErrorCode code) { return row_of(code).status; }

std::string error_body(const ApiError &error, ErrorShape shape) {
  switch (shape) {
    case ErrorShape::vllm_load:
      return to_text(load_error(error));
    case ErrorShape::llama_server:
      return to_text(llama_error(error));
    case ErrorShape::openai:
      break;
  }
  return to_text(Json{{"error", openai_error(error)}});
}

HttpResponse error_response(const ApiError &error, ErrorShape shape) {
  const Row row = row_of(error.error.code);
  HttpResponse response{.status = row.status, .body = error_body(error, shape)};
  if (row.try_again) response.headers.emplace_back("Retry-After", "1");
  if (row.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace patchbay
