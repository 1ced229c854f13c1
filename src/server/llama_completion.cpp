#include "server/llama_completion.h"

#include <map>
#include <memory>

#include "server/generate.h"
#include "server/output_fields.h"
#include "server/prompt_fields.h"
#include "server/sampling_fields.h"
#include "server/slot_field.h"

namespace patchbay {
namespace {

constexpr int64_t k_most_probs = 1000;

/// Why an answer ended, in llama-server's words.
const char *stop_type(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop:
      return "word";
    default:
      return "limit";
  }
}

double per_second(uint32_t n, double ms) { return ms > 0 ? 1e3 * n / ms : 0; }

Json timings(const Usage &usage) {
  const uint32_t n_prompt = usage.n_tokens_prompt - usage.n_tokens_cached;
  return {{"cache_n", usage.n_tokens_cached},
          {"prompt_n", n_prompt},
          {"prompt_ms", usage.prompt_ms},
          {"prompt_per_second", per_second(n_prompt, usage.prompt_ms)},
          {"predicted_n", usage.n_tokens_out},
          {"predicted_ms", usage.decode_ms},
          {"predicted_per_second", per_second(usage.n_tokens_out, usage.decode_ms)}};
}

Json probabilities(const TokenEvent &event, const Model &model) {
  const auto entry = [&](int32_t token, float logprob) {
    return Json{{"id", token}, {"token", model.detokenize({token})}, {"logprob", logprob}};
  };
  Json json = entry(event.token, event.logprob);
  json["top_logprobs"] = Json::array();
  for (const auto &[token, logprob] : event.top)
    json["top_logprobs"].push_back(entry(token, logprob));
  return json;
}

class LlamaFormat final : public AnswerFormat {
 public:
  LlamaFormat(std::shared_ptr<const Model> model, const Request &request)
      : model_(std::move(model)),
        settings_(generation_settings(request)),
        with_probs_(request.n_logprobs.has_value()) {}

  void choose(const AdapterChoice &choice) override {
    name_ = choice.model;
    settings_["lora"] = worn_json(choice.worn);
  }

  void take_slot(uint32_t slot) override { slot_ = slot; }

  HttpResponse whole(const Answers &answers) override {
    Json list = Json::array();
    for (size_t i = 0; i < answers.choices.size(); ++i) {
      const Answer &answer = answers.choices[i];
      Json json = last(i, answer.text, answer.reason, answers.usage);
      json["tokens"] = Json::array();
      for (const auto &token : answer.tokens) json["tokens"].push_back(token.token);
      if (with_probs_) {
        json["completion_probabilities"] = Json::array();
        for (const auto &token : answer.tokens)
          json["completion_probabilities"].push_back(probabilities(token, *model_));
      }
      list.push_back(std::move(json));
    }
    return json_response(list.size() == 1 ? list[0] : list);
  }

  std::string token(const TokenEvent &event) override {
    Json json{{"index", event.i_choice},
              {"content", event.text},
              {"tokens", Json::array({event.token})},
              {"stop", false}};
    if (with_probs_)
      json["completion_probabilities"] = Json::array({probabilities(event, *model_)});
    return sse_data(to_text(json));
  }

  std::string choice_end(const ChoiceEnd &end) override {
    ends_[end.i_choice] = end;
    return {};
  }

  /// The last event of each answer tells the usage of all.
  std::string end(const Usage &usage) override {
    std::string events;
    for (const auto &[i, ended] : ends_)
      events += sse_data(to_text(last(i, ended.text, ended.reason, usage)));
    return events;
  }

 private:
  [[nodiscard]] Json last(size_t i, const std::string &text, StopReason reason,
                          const Usage &usage) const {
    return {{"index", i},
            {"content", text},
            {"tokens", Json::array()},
            {"id_slot", slot_},
            {"stop", true},
            {"model", name_},
            {"tokens_predicted", usage.n_tokens_out},
            {"tokens_evaluated", usage.n_tokens_prompt},
            {"tokens_cached", usage.n_tokens_cached},
            {"generation_settings", settings_},
            {"truncated", false},
            {"stop_type", stop_type(reason)},
            {"timings", timings(usage)}};
  }

  std::shared_ptr<const Model> model_;
  Json settings_;
  bool with_probs_;
  std::string name_;
  uint32_t slot_ = 0;
  std::map<uint32_t, ChoiceEnd> ends_;
};

DialectRequest read_completion(JsonFields &fields, const Service &service) {
  DialectRequest asked;
  Request &request = asked.request;
  asked.wish = read_adapter_wish(fields);
  read_sampling(fields, request, service.defaults);
  read_output_form(fields, request);
  request.n_predict =
      read_n_predict(fields, {"n_predict", "max_tokens"}, service.defaults.n_predict.value_or(-1));
  if (const auto n = fields.integer("n_probs", 0, k_most_probs); n && *n > 0)
    request.n_logprobs = static_cast<uint32_t>(*n);
  asked.stream = fields.flag("stream").value_or(false);
  asked.slot = read_slot(fields, service);
  const Json missing;
  const Json *prompt = fields.any("prompt");
  auto tokens = prompt_tokens_of(fields, "prompt", prompt == nullptr ? missing : *prompt, service);
  if (tokens) request.prompt = std::move(*tokens);
  asked.format = std::make_unique<LlamaFormat>(service.model, request);
  return asked;
}

}  // namespace

Json generation_settings(const Request &request) {
  const SamplingParams &params = request.sampling;
  return {{"seed", params.seed},
          {"temperature", params.temperature},
          {"top_k", params.top_k},
          {"top_p", params.top_p},
          {"min_p", params.min_p},
          {"repeat_last_n", params.n_penalty_last},
          {"repeat_penalty", params.repeat_penalty},
          {"presence_penalty", params.presence_penalty},
          {"frequency_penalty", params.frequency_penalty},
          {"stop", request.stop},
          {"n_predict", request.n_predict},
          {"max_tokens", request.n_predict},
          {"ignore_eos", request.ignore_eos},
          {"grammar", request.grammar},
          {"n_probs", request.n_logprobs.value_or(0)}};
}

void add_llama_completion(Router &router, Service &service) {
  for (const char *path : {"/completion", "/completions"}) {
    router.add({.method = "POST",
                .path = path,
                .errors = ErrorShape::llama_server,
                .is_work = true,
                .handler = generation_route(service, ErrorShape::llama_server, read_completion)});
  }
}

}  // namespace patchbay
