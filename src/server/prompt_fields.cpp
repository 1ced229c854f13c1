#include "server/prompt_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "server/sampling_fields.h"

namespace patchbay {

namespace {

/// Tokens that a text has at least.
size_t n_least_tokens(size_t n_bytes, const Service &service) {
  return n_bytes / std::max<size_t>(1, service.longest_piece);
}

}  // namespace

Expected<void> check_prompt_size(size_t n_bytes, const Service &service) {
  const size_t n_least = n_least_tokens(n_bytes, service);
  const uint32_t n_ctx = service.engine.n_ctx();
  if (n_least <= n_ctx) return {};
  return fail(ErrorCode::context_overflow,
              fmt::format("the prompt of {} bytes has more than {} tokens and the context holds {}",
                          n_bytes, n_least, n_ctx));
}

std::optional<std::vector<int32_t>> prompt_tokens_of(JsonFields &fields, const char *name,
                                                     const Json &value, const Service &service) {
  const size_t n_bytes = value.is_string() ? value.get_ref<const std::string &>().size() : 0;
  const auto checked = check_prompt_size(n_bytes, service);
  if (checked) return tokens_of(fields, name, value, *service.model, true);
  ApiError error;
  error.error = checked.error();
  error.param = name;
  error.context.emplace();
  error.context->n_tokens_prompt = static_cast<uint32_t>(n_least_tokens(n_bytes, service));
  error.context->n_ctx = service.engine.n_ctx();
  fields.take_error(error);
  return std::nullopt;
}

size_t longest_piece_of(const LoadedModel &model) {
  size_t longest = 4;  // of a character that is no token, where the vocabulary has no bytes
  if (model.tokenizer == nullptr) return longest;
  for (int32_t token = 0; token < model.tokenizer->n_vocab(); ++token)
    longest = std::max(longest, model.tokenizer->piece(token).size());
  return longest;
}

}  // namespace patchbay
