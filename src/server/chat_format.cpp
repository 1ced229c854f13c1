#include "server/chat_format.h"

#include <fmt/format.h>

#include "engine/loaded_model.h"
#include "server/sampling_fields.h"

namespace patchbay {
namespace {

std::string make_call_id() { return fmt::format("call_{:016x}", random_seed()); }

const char *reason_of(StopReason reason, const ToolCallParser &parser) {
  const bool calls = reason != StopReason::length && parser.n_calls() > 0;
  return calls ? "tool_calls" : finish_reason(reason);
}

Json call_json(std::string name, std::string arguments) {
  return {{"id", make_call_id()},
          {"type", "function"},
          {"function", {{"name", std::move(name)}, {"arguments", std::move(arguments)}}}};
}

/// Puts a whole message together.
struct MessageBuilder {
  std::string content{};
  Json calls = Json::array();

  void operator()(const ContentDelta &delta) { content += delta.text; }
  void operator()(const ToolCallBegun &delta) { calls.push_back(call_json(delta.name, "")); }
  void operator()(const ArgumentsDelta &delta) {
    Json &arguments = calls[delta.i_call]["function"]["arguments"];
    arguments = arguments.get<std::string>() + delta.text;
  }
};

/// A delta of a stream.
struct DeltaJson {
  Json operator()(const ContentDelta &delta) const { return {{"content", delta.text}}; }
  Json operator()(const ToolCallBegun &delta) const {
    Json call{{"index", delta.i_call}};
    call.update(call_json(delta.name, ""));
    return {{"tool_calls", Json::array({std::move(call)})}};
  }
  Json operator()(const ArgumentsDelta &delta) const {
    return {{"tool_calls", Json::array({Json{{"index", delta.i_call},
                                             {"function", {{"arguments", delta.text}}}}})}};
  }
};

Json bytes_of(std::string_view piece) {
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<uint8_t>(c));
  return bytes;
}

Json content_logprobs(Json entries) {
  return {{"content", std::move(entries)}, {"refusal", nullptr}};
}

}  // namespace

ChatFormat::ChatFormat(const Service &service, ChatRequest chat, const Options &options)
    : service_(service), chat_(std::move(chat)), options_(options) {}

std::optional<Error> ChatFormat::prepare(const AdapterChoice &choice, Request &request) {
  auto form = complete_request(service_, choice, chat_, request);
  if (!form) return std::move(form.error());
  for (uint32_t i = 0; i < options_.n_choices; ++i) {
    parsers_.emplace_back(ToolCallParser::Options{.style = form->style,
                                                  .names = form->tools,
                                                  .n_calls_max = form->n_calls_max,
                                                  .is_certain = form->is_certain});
  }
  chat_ = {};
  return std::nullopt;
}

void ChatFormat::choose(const AdapterChoice &choice) {
  const char *object = options_.stream ? "chat.completion.chunk" : "chat.completion";
  answer_ = make_openai_answer("chatcmpl-", object, choice.model);
}

HttpResponse ChatFormat::whole(const Answers &answers) {
  Json json = head_of(answer_);
  Json choices = Json::array();
  for (size_t i = 0; i < answers.choices.size(); ++i) {
    const Answer &answer = answers.choices[i];
    Json logprobs;
    if (options_.with_logprobs) {
      Json entries = Json::array();
      for (const auto &token : answer.tokens) entries.push_back(logprob(token));
      logprobs = content_logprobs(std::move(entries));
    }
    Json said = message(answer, parsers_[i]);
    choices.push_back({{"index", i},
                       {"message", std::move(said)},
                       {"logprobs", std::move(logprobs)},
                       {"finish_reason", reason_of(answer.reason, parsers_[i])}});
  }
  json["choices"] = std::move(choices);
  json["usage"] = usage_json(answers.usage);
  return json_response(json);
}

Json ChatFormat::message(const Answer &answer, ToolCallParser &parser) const {
  MessageBuilder builder;
  for (const auto &delta : parser.push(answer.text)) std::visit(builder, delta);
  for (const auto &delta : parser.finish()) std::visit(builder, delta);
  const bool is_silent = builder.content.empty() && !builder.calls.empty();
  Json json{{"role", "assistant"},
            {"content", is_silent ? Json(nullptr) : Json(std::move(builder.content))},
            {"refusal", nullptr}};
  if (!builder.calls.empty()) json["tool_calls"] = std::move(builder.calls);
  return json;
}

std::string ChatFormat::begin() {
  std::string events;
  for (uint32_t i = 0; i < options_.n_choices; ++i)
    events += chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
  return events;
}

std::string ChatFormat::token(const TokenEvent &event) {
  const auto deltas = parsers_.at(event.i_choice).push(event.text);
  Json logprobs;
  if (options_.with_logprobs) logprobs = content_logprobs(Json::array({logprob(event)}));
  return chunks(event.i_choice, deltas, std::move(logprobs));
}

std::string ChatFormat::choice_end(const ChoiceEnd &end) {
  ToolCallParser &parser = parsers_.at(end.i_choice);
  std::string events = chunks(end.i_choice, parser.push(end.text), nullptr);
  events += chunks(end.i_choice, parser.finish(), nullptr);
  events += chunk(end.i_choice, Json::object(), nullptr, reason_of(end.reason, parser));
  return events;
}

std::string ChatFormat::end(const Usage &usage) {
  return usage_chunk(answer_, options_.include_usage, usage) + sse_data("[DONE]");
}

Json ChatFormat::logprob(const TokenEvent &event) const {
  const Model &model = *service_.model;
  const Tokenizer &tokenizer = *model.loaded()->tokenizer;
  const auto entry = [&](int32_t token, float value) {
    return Json{{"token", model.detokenize({token})},
                {"logprob", value},
                {"bytes", bytes_of(tokenizer.piece(token))}};
  };
  Json json = entry(event.token, event.logprob);
  json["top_logprobs"] = Json::array();
  for (const auto &[token, value] : event.top) json["top_logprobs"].push_back(entry(token, value));
  return json;
}

/// The token's log-probability goes with the first of its deltas; where its text is held back it
/// goes alone.
std::string ChatFormat::chunks(uint32_t i_choice, const std::vector<AnswerDelta> &deltas,
                               Json logprobs) const {
  if (deltas.empty())
    return logprobs.is_null() ? "" : chunk(i_choice, Json::object(), std::move(logprobs), nullptr);
  std::string events;
  for (const auto &delta : deltas)
    events +=
        chunk(i_choice, std::visit(DeltaJson{}, delta), std::exchange(logprobs, nullptr), nullptr);
  return events;
}

std::string ChatFormat::chunk(uint32_t i_choice, Json delta, Json logprobs, Json reason) const {
  Json json = head_of(answer_);
  json["choices"] = Json::array({Json{{"index", i_choice},
                                      {"delta", std::move(delta)},
                                      {"logprobs", std::move(logprobs)},
                                      {"finish_reason", std::move(reason)}}});
  if (options_.include_usage) json["usage"] = nullptr;
  return sse_data(to_text(json));
}

}  // namespace patchbay
