#include "server/tgi_generate.h"

#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "engine/loaded_model.h"
#include "server/prompt_fields.h"
#include "server/sampling_fields.h"

namespace patchbay {
namespace {

const char *finish_reason(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos_token";
    case StopReason::stop:
      return "stop_sequence";
    default:
      return "length";
  }
}

class TgiFormat final : public AnswerFormat {
 public:
  struct Options {
    bool with_details = false;
    uint64_t seed = 0;
    std::string prompt{};  ///< in front of the text, where that is wanted
  };

  TgiFormat(std::shared_ptr<const Model> model, Options options)
      : model_(std::move(model)), options_(std::move(options)) {}

  void choose(const AdapterChoice & /*choice*/) override {}

  HttpResponse whole(const Answers &answers) override {
    const Answer &answer = answers.choices.front();
    Json json{{"generated_text", options_.prompt + answer.text}};
    if (!options_.with_details) return json_response(json);
    Json details = details_of(answer.reason, answer.tokens.size());
    details["prefill"] = Json::array();
    details["tokens"] = Json::array();
    for (const auto &token : answer.tokens) details["tokens"].push_back(token_json(token));
    json["details"] = std::move(details);
    return json_response(json);
  }

  /// The last event says more, so that each waits for the next one.
  std::string token(const TokenEvent &event) override {
    std::string earlier = held_ ? sse_data(to_text(*held_)) : "";
    text_ += event.text;
    held_ = Json{{"index", ++n_tokens_},
                 {"token", token_json(event)},
                 {"generated_text", nullptr},
                 {"details", nullptr}};
    return earlier;
  }

  std::string choice_end(const ChoiceEnd &end) override {
    text_ += end.text;
    reason_ = end.reason;
    return {};
  }

  std::string end(const Usage & /*usage*/) override {
    Json last = held_.value_or(Json{{"index", 0}, {"token", nullptr}});
    last["generated_text"] = options_.prompt + text_;
    last["details"] = details_of(reason_, n_tokens_);
    return sse_data(to_text(last));
  }

 private:
  [[nodiscard]] Json token_json(const TokenEvent &event) const {
    const auto &tokenizer = model_->loaded()->tokenizer;
    return {{"id", event.token},
            {"text", model_->detokenize({event.token})},
            {"logprob", event.logprob},
            {"special", tokenizer != nullptr && tokenizer->is_eog(event.token)}};
  }

  [[nodiscard]] Json details_of(StopReason reason, size_t n_tokens) const {
    return {{"finish_reason", finish_reason(reason)},
            {"generated_tokens", n_tokens},
            {"seed", options_.seed}};
  }

  std::shared_ptr<const Model> model_;
  Options options_;
  std::optional<Json> held_;
  size_t n_tokens_ = 0;
  std::string text_;
  StopReason reason_ = StopReason::length;
};

/// Their own names and defaults: greedy unless asked to sample.
void read_parameters(JsonFields &fields, const SamplingDefaults &defaults, Request &request) {
  request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .n_penalty_last = -1};
  read_sampling(fields, request, defaults);
  request.n_choices = 1;
  const bool samples = fields.flag("do_sample").value_or(fields.any("temperature") != nullptr);
  if (!samples) request.sampling.temperature = 0;
  request.n_predict =
      static_cast<int32_t>(fields.integer("max_new_tokens", 0, std::numeric_limits<int32_t>::max())
                               .value_or(defaults.n_predict.value_or(100)));
}

}  // namespace

DialectRequest read_tgi(JsonFields &fields, const Service &service, bool streams) {
  DialectRequest asked;
  asked.wish = read_adapter_wish(fields);
  asked.stream = streams || fields.flag("stream").value_or(false);
  const Json none = Json::object();
  const Json *given = fields.object("parameters");
  JsonFields parameters(given == nullptr ? none : *given, "parameters");
  read_parameters(parameters, service.defaults, asked.request);
  read_adapter_names(parameters, asked.wish);
  parameters.refuse_unsupported(
      {"grammar", "merged_adapters", "best_of", "watermark", "api_token"});
  const bool wants_details = parameters.flag("details").value_or(false);
  const bool wants_prompt = parameters.flag("return_full_text").value_or(false);
  const std::string inputs = fields.text("inputs").value_or("");
  auto tokens = prompt_tokens_of(fields, "inputs", Json(inputs), service);
  if (parameters.error() != nullptr) fields.take_error(*parameters.error());
  if (tokens) asked.request.prompt = std::move(*tokens);
  if (wants_details || asked.stream) asked.request.n_logprobs = 0;
  asked.format = std::make_unique<TgiFormat>(
      service.model, TgiFormat::Options{.with_details = wants_details,
                                        .seed = asked.request.sampling.seed,
                                        .prompt = wants_prompt ? inputs : ""});
  return asked;
}

}  // namespace patchbay
