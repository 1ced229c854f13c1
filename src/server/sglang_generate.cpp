#include "server/sglang_generate.h"

#include <chrono>
#include <limits>
#include <map>
#include <memory>

#include "server/openai_format.h"
#include "server/prompt_fields.h"
#include "server/sampling_fields.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;

Json finish_reason(StopReason reason, size_t n_tokens) {
  if (reason == StopReason::length) return {{"type", "length"}, {"length", n_tokens}};
  return {{"type", "stop"}, {"matched", nullptr}};
}

/// One answer as far as it has come: every event of a stream has all of its text.
struct Part {
  std::string text;
  size_t n_tokens = 0;
  Json logprobs = Json::array();
  Json reason;  ///< null: it goes on
};

class SglangFormat final : public AnswerFormat {
 public:
  SglangFormat(size_t n_tokens_prompt, bool with_logprobs)
      : id_(make_openai_answer("", "", "").id),
        n_tokens_prompt_(n_tokens_prompt),
        with_logprobs_(with_logprobs) {}

  void choose(const AdapterChoice & /*choice*/) override {}

  HttpResponse whole(const Answers &answers) override {
    Json list = Json::array();
    for (const auto &answer : answers.choices) {
      Part part{.text = answer.text};
      for (const auto &token : answer.tokens) add(part, token);
      part.text = answer.text;
      part.reason = finish_reason(answer.reason, part.n_tokens);
      list.push_back(json_of(part, answers.usage.n_tokens_cached));
    }
    return json_response(list.size() == 1 ? list[0] : list);
  }

  std::string token(const TokenEvent &event) override {
    Part &part = parts_[event.i_choice];
    add(part, event);
    return event_of(event.i_choice, part, 0);
  }

  std::string choice_end(const ChoiceEnd &end) override {
    Part &part = parts_[end.i_choice];
    part.text += end.text;
    part.reason = finish_reason(end.reason, part.n_tokens);
    return {};
  }

  std::string end(const Usage &usage) override {
    std::string events;
    for (const auto &[i, part] : parts_) events += event_of(i, part, usage.n_tokens_cached);
    return events + sse_data("[DONE]");
  }

 private:
  static void add(Part &part, const TokenEvent &event) {
    part.text += event.text;
    ++part.n_tokens;
    part.logprobs.push_back(Json::array({event.logprob, event.token, nullptr}));
  }

  [[nodiscard]] Json json_of(const Part &part, uint32_t n_tokens_cached) const {
    const std::chrono::duration<double> took = Clock::now() - begin_;
    Json info{{"id", id_},
              {"finish_reason", part.reason},
              {"prompt_tokens", n_tokens_prompt_},
              {"completion_tokens", part.n_tokens},
              {"cached_tokens", n_tokens_cached},
              {"e2e_latency", took.count()}};
    if (with_logprobs_) info["output_token_logprobs"] = part.logprobs;
    return {{"text", part.text}, {"meta_info", std::move(info)}};
  }

  [[nodiscard]] std::string event_of(uint32_t i_choice, const Part &part,
                                     uint32_t n_tokens_cached) const {
    Json json = json_of(part, n_tokens_cached);
    json["index"] = i_choice;
    return sse_data(to_text(json));
  }

  std::string id_;
  size_t n_tokens_prompt_;
  bool with_logprobs_;
  Clock::time_point begin_ = Clock::now();
  std::map<uint32_t, Part> parts_;
};

void read_params(JsonFields &fields, const SamplingDefaults &defaults, Request &request) {
  request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .n_penalty_last = -1};
  read_sampling(fields, request, defaults);
  request.n_predict =
      static_cast<int32_t>(fields.integer("max_new_tokens", 0, std::numeric_limits<int32_t>::max())
                               .value_or(defaults.n_predict.value_or(128)));
}

}  // namespace

DialectRequest read_sglang(JsonFields &fields, const Service &service, bool streams) {
  DialectRequest asked;
  asked.wish = read_adapter_wish(fields);
  asked.stream = streams || fields.flag("stream").value_or(false);
  const Json none = Json::object();
  const Json *given = fields.object("sampling_params");
  JsonFields params(given == nullptr ? none : *given, "sampling_params");
  read_params(params, service.defaults, asked.request);
  params.refuse_unsupported(
      {"regex", "json_schema", "ebnf", "structural_tag", "stop_token_ids", "min_new_tokens"});
  if (params.error() != nullptr) fields.take_error(*params.error());
  const bool wants_logprobs = fields.flag("return_logprob").value_or(false);
  if (wants_logprobs) asked.request.n_logprobs = 0;
  const char *name = fields.any("input_ids") != nullptr ? "input_ids" : "text";
  const Json missing;
  const Json *prompt = fields.any(name);
  auto tokens = prompt_tokens_of(fields, name, prompt == nullptr ? missing : *prompt, service);
  if (tokens) asked.request.prompt = std::move(*tokens);
  asked.format = std::make_unique<SglangFormat>(asked.request.prompt.size(), wants_logprobs);
  return asked;
}

}  // namespace patchbay
