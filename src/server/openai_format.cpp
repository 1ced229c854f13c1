#include "server/openai_format.h"

#include <fmt/format.h>

#include "server/sampling_fields.h"

namespace patchbay {

OpenAiAnswer make_openai_answer(const std::string &prefix, std::string object, std::string model) {
  return {.id = fmt::format("{}{:016x}", prefix, random_seed()),
          .object = std::move(object),
          .model = std::move(model),
          .created = std::time(nullptr)};
}

Json head_of(const OpenAiAnswer &answer) {
  return {{"id", answer.id},
          {"object", answer.object},
          {"created", answer.created},
          {"model", answer.model}};
}

Json usage_json(const Usage &usage) {
  return {{"prompt_tokens", usage.n_tokens_prompt},
          {"completion_tokens", usage.n_tokens_out},
          {"total_tokens", usage.n_tokens_prompt + usage.n_tokens_out},
          {"prompt_tokens_details", {{"cached_tokens", usage.n_tokens_cached}}}};
}

std::string usage_chunk(const OpenAiAnswer &answer, bool wanted, const Usage &usage) {
  if (!wanted) return {};
  Json json = head_of(answer);
  json["choices"] = Json::array();
  json["usage"] = usage_json(usage);
  return sse_data(to_text(json));
}

bool read_include_usage(JsonFields &fields) {
  const Json *options = fields.object("stream_options");
  if (options == nullptr) return false;
  JsonFields inner(*options, "stream_options");
  const bool wanted = inner.flag("include_usage").value_or(false);
  if (inner.error() != nullptr) fields.take_error(*inner.error());
  return wanted;
}

const char *finish_reason(StopReason reason) {
  return reason == StopReason::length ? "length" : "stop";
}

}  // namespace patchbay
