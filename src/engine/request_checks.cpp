#include "engine/request_checks.h"

#include <fmt/format.h>

#include <cmath>

#include "engine/sampler.h"

namespace patchbay {
namespace {

// What one request can make the engine thread do for each of its tokens.
constexpr uint32_t k_most_logprobs = 1000;
constexpr size_t k_most_adapters = 256;

template <class... Args>
tl::unexpected<Error> refuse(fmt::format_string<Args...> text, Args &&...args) {
  return fail(ErrorCode::invalid_argument, fmt::format(text, std::forward<Args>(args)...));
}

Expected<void> check_prompt(const Request &request, const RequestBounds &bounds) {
  if (request.prompt.empty()) return refuse("the prompt is empty");
  for (const int32_t token : request.prompt) {
    if (token < 0 || static_cast<uint32_t>(token) >= bounds.n_vocab) {
      return refuse("token {} is not in the vocabulary of {} tokens", token, bounds.n_vocab);
    }
  }
  if (request.prompt.size() > bounds.n_ctx) {
    return fail(ErrorCode::context_overflow,
                fmt::format("the prompt has {} tokens and the context holds {}",
                            request.prompt.size(), bounds.n_ctx));
  }
  return {};
}

Expected<void> check_spans(const Request &request) {
  int32_t earlier = -1;
  for (const auto &span : request.spans) {
    const bool is_first = earlier < 0;
    if (is_first ? span.first != 0 : span.first <= earlier) {
      return refuse("spans must begin at 0 and rise, found {} {}", span.first,
                    is_first ? "first" : fmt::format("after {}", earlier));
    }
    earlier = span.first;
    if (span.adapters.size() > k_most_adapters) {
      return refuse("a span may wear {} adapters at most, found {}", k_most_adapters,
                    span.adapters.size());
    }
    for (const auto &[adapter, strength] : span.adapters) {
      if (adapter == nullptr) return refuse("an adapter is null");
      if (!std::isfinite(strength)) return refuse("an adapter's strength is {}", strength);
    }
  }
  return {};
}

Expected<void> check_counts(const Request &request, const RequestBounds &bounds) {
  if (request.n_predict < -1)
    return refuse("n_predict must be at least -1, found {}", request.n_predict);
  if (request.n_choices < 1 || request.n_choices > bounds.n_seqs_max) {
    return refuse("n_choices must be from 1 to {}, found {}", bounds.n_seqs_max, request.n_choices);
  }
  if (request.embedding && (request.n_choices > 1 || request.prompt_logits))
    return refuse("a request for an embedding has one choice and no logits");
  const uint32_t n_logprobs = request.n_logprobs.value_or(0);
  if (n_logprobs > k_most_logprobs)
    return refuse("n_logprobs must be at most {}, found {}", k_most_logprobs, n_logprobs);
  return {};
}

}  // namespace

Expected<void> check_request(const Request &request, const RequestBounds &bounds) {
  for (const auto &checked :
       {check_prompt(request, bounds), check_spans(request), check_counts(request, bounds),
        check_sampling(request.sampling, static_cast<int32_t>(bounds.n_vocab))}) {
    if (!checked) return checked;
  }
  return {};
}

}  // namespace patchbay
