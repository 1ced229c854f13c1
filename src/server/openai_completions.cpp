#include "server/openai_completions.h"

#include <limits>
#include <memory>
#include <set>
#include <utility>

#include "server/generate.h"
#include "server/openai_format.h"
#include "server/output_fields.h"
#include "server/prompt_fields.h"
#include "server/sampling_fields.h"
#include "server/slot_field.h"

namespace patchbay {
namespace {

constexpr int64_t k_most_logprobs = 20;

/// The token as it is written, for its log-probability.
std::string text_of(const Model &model, int32_t token) { return model.detokenize({token}); }

class Logprobs {
 public:
  explicit Logprobs(const Model &model) : model_(model) {}

  void add(const TokenEvent &event) {
    const std::string text = text_of(model_, event.token);
    tokens_.push_back(text);
    token_logprobs_.push_back(event.logprob);
    Json top = Json::object();
    for (const auto &[token, logprob] : event.top) top[text_of(model_, token)] = logprob;
    top_logprobs_.push_back(std::move(top));
    text_offset_.push_back(offset_);
    offset_ += text.size();
  }
  [[nodiscard]] Json json() const {
    return {{"tokens", tokens_},
            {"token_logprobs", token_logprobs_},
            {"top_logprobs", top_logprobs_},
            {"text_offset", text_offset_}};
  }

 private:
  const Model &model_;
  Json tokens_ = Json::array();
  Json token_logprobs_ = Json::array();
  Json top_logprobs_ = Json::array();
  Json text_offset_ = Json::array();
  size_t offset_ = 0;
};

class CompletionFormat final : public AnswerFormat {
 public:
  struct Options {
    bool with_logprobs = false;
    bool include_usage = false;
    std::string echoed{};  ///< in front of each answer
  };

  CompletionFormat(std::shared_ptr<const Model> model, Options options)
      : model_(std::move(model)), options_(std::move(options)) {}

  void choose(const AdapterChoice &choice) override {
    answer_ = make_openai_answer("cmpl-", "text_completion", choice.model);
  }

  HttpResponse whole(const Answers &answers) override {
    Json json = head_of(answer_);
    Json choices = Json::array();
    for (size_t i = 0; i < answers.choices.size(); ++i) {
      const Answer &answer = answers.choices[i];
      Logprobs logprobs(*model_);
      for (const auto &token : answer.tokens) logprobs.add(token);
      choices.push_back({{"index", i},
                         {"text", options_.echoed + answer.text},
                         {"logprobs", options_.with_logprobs ? logprobs.json() : Json(nullptr)},
                         {"finish_reason", finish_reason(answer.reason)}});
    }
    json["choices"] = std::move(choices);
    json["usage"] = usage_json(answers.usage);
    return json_response(json);
  }

  std::string token(const TokenEvent &event) override {
    // Text that is held back comes with a later token.
    if (event.text.empty() && !options_.with_logprobs) return {};
    Json logprobs;
    if (options_.with_logprobs) {
      Logprobs one(*model_);
      one.add(event);
      logprobs = one.json();
    }
    return chunk(event.i_choice, event.text, std::move(logprobs), nullptr);
  }

  std::string choice_end(const ChoiceEnd &end) override {
    return chunk(end.i_choice, end.text, nullptr, finish_reason(end.reason));
  }

  std::string end(const Usage &usage) override {
    return usage_chunk(answer_, options_.include_usage, usage) + sse_data("[DONE]");
  }

 private:
  std::string chunk(uint32_t i_choice, std::string text, Json logprobs, Json reason) {
    if (has_begun_.insert(i_choice).second) text = options_.echoed + text;
    Json json = head_of(answer_);
    json["choices"] = Json::array({Json{{"index", i_choice},
                                        {"text", std::move(text)},
                                        {"logprobs", std::move(logprobs)},
                                        {"finish_reason", std::move(reason)}}});
    if (options_.include_usage) json["usage"] = nullptr;
    return sse_data(to_text(json));
  }

  std::shared_ptr<const Model> model_;
  Options options_;
  OpenAiAnswer answer_;
  std::set<uint32_t> has_begun_;
};

/// A list of one prompt is that prompt; more of them are refused by tokens_of().
const Json *one_prompt(const Json *prompt) {
  static const Json missing;
  if (prompt == nullptr) return &missing;
  const bool is_list = prompt->is_array() && prompt->size() == 1 && !(*prompt)[0].is_number();
  return is_list ? &(*prompt)[0] : prompt;
}

/// Fields of OpenAI's that would change the answer, in values that ask for nothing.
void check_unsupported(JsonFields &fields, const Request &request) {
  fields.refuse_unsupported({"suffix"});
  const auto best_of = fields.integer("best_of", 1, std::numeric_limits<int64_t>::max());
  if (best_of && *best_of != request.n_choices)
    fields.refuse("best_of", "as many as n: answers are not chosen among", Json(*best_of));
}

DialectRequest read_completion(JsonFields &fields, const Service &service) {
  DialectRequest asked;
  Request &request = asked.request;
  // OpenAI's defaults: all of the distribution.
  request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  asked.wish = read_adapter_wish(fields);
  read_sampling(fields, request, service.defaults);
  check_unsupported(fields, request);
  read_output_form(fields, request);
  request.n_predict =
      read_n_predict(fields, {"max_tokens", "n_predict"}, service.defaults.n_predict.value_or(16));
  if (const auto n = fields.integer("logprobs", 0, k_most_logprobs))
    request.n_logprobs = static_cast<uint32_t>(*n);
  CompletionFormat::Options options{.with_logprobs = request.n_logprobs.has_value()};
  asked.stream = fields.flag("stream").value_or(false);
  asked.slot = read_slot(fields, service);
  options.include_usage = read_include_usage(fields);
  auto tokens = prompt_tokens_of(fields, "prompt", *one_prompt(fields.any("prompt")), service);
  if (tokens) request.prompt = std::move(*tokens);
  if (fields.flag("echo").value_or(false))
    options.echoed = service.model->detokenize(request.prompt);
  asked.format = std::make_unique<CompletionFormat>(service.model, std::move(options));
  return asked;
}

}  // namespace

void add_openai_completions(Router &router, Service &service) {
  router.add({.method = "POST",
              .path = "/v1/completions",
              .is_work = true,
              .handler = generation_route(service, ErrorShape::openai, read_completion)});
}

}  // namespace patchbay
