#pragma once

#include <ctime>
#include <memory>
#include <string>

#include "patchbay/model.hpp"
#include "server/answers.h"
#include "server/generate.h"
#include "server/json_text.h"

namespace patchbay {

/// What all objects of one answer in OpenAI's dialect have in common.
struct OpenAiAnswer {
  std::string id;      ///< "cmpl-..."
  std::string object;  ///< "text_completion"
  std::string model;   ///< as the request called it
  std::time_t created = 0;
};

/// A fresh id with that prefix, and the time.
[[nodiscard]] OpenAiAnswer make_openai_answer(const std::string &prefix, std::string object,
                                              std::string model);

[[nodiscard]] Json head_of(const OpenAiAnswer &answer);
[[nodiscard]] Json usage_json(const Usage &usage);
/// The event that ends a stream of which usage was wanted; nothing otherwise.
[[nodiscard]] std::string usage_chunk(const OpenAiAnswer &answer, bool wanted, const Usage &usage);
/// stream_options.include_usage
[[nodiscard]] bool read_include_usage(JsonFields &fields);
/// "stop" or "length".
[[nodiscard]] const char *finish_reason(StopReason reason);

}  // namespace patchbay
