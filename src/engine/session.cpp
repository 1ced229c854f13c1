#include "patchbay/session.hpp"

#include <stdexcept>
#include <utility>

namespace patchbay {
namespace {

[[noreturn]] void raise(const Error &error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::context_overflow:
      throw std::invalid_argument(error.message);
    default:
      throw std::runtime_error(error.message);
  }
}

RequestHandle submit(Engine &engine, Request request) {
  auto submitted = engine.submit(std::move(request));
  if (const auto *error = std::get_if<Error>(&submitted)) raise(*error);
  return std::get<RequestHandle>(std::move(submitted));
}

/// Receives the events of a request with one answer.
class Collector {
 public:
  Collector(RequestHandle &handle, const TextCallback &on_text)
      : handle_(handle), on_text_(on_text) {}

  GenerateResult collect() {
    while (auto event = handle_.next()) std::visit(*this, *event);
    return std::move(result_);
  }

  void operator()(const TokenEvent &event) {
    if (enough_) return;
    result_.tokens.push_back(event.token);
    emit(event.text);
  }

  void operator()(const LogitsEvent & /*event*/) {}
  void operator()(const EmbeddingEvent & /*event*/) {}

  void operator()(const ChoiceEnd &event) {
    if (enough_) return;
    emit(event.text);
    result_.reason = event.reason;
  }

  void operator()(const RequestEnd &event) {
    if (event.error && !enough_) raise(*event.error);
    if (enough_) result_.reason = StopReason::cancelled;
    result_.n_tokens_prompt = event.usage.n_tokens_prompt;
    result_.n_tokens_cached = event.usage.n_tokens_cached;
    result_.prompt_ms = event.usage.prompt_ms;
    result_.decode_ms = event.usage.decode_ms;
  }

 private:
  void emit(const std::string &text) {
    result_.text += text;
    if (text.empty() || !on_text_ || on_text_(text)) return;
    enough_ = true;
    handle_.cancel();
  }

  RequestHandle &handle_;
  const TextCallback &on_text_;
  GenerateResult result_;
  bool enough_ = false;  // the caller's word; later events are not heard
};

}  // namespace

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::eos:
      return "eos";
    case StopReason::stop:
      return "stop";
    case StopReason::length:
      return "length";
    case StopReason::cancelled:
      return "cancelled";
  }
  return "length";
}

Session::Session(std::shared_ptr<const Model> model, const EngineOptions &options)
    : model_(std::move(model)), engine_(std::make_unique<Engine>(model_, options)) {}

GenerateResult Session::generate(std::string_view prompt, const GenerateOptions &options,
                                 const TextCallback &on_text) {
  if (!model_->has_tokenizer())
    throw std::invalid_argument("the model has no tokenizer: give token ids");
  return generate(model_->tokenize(prompt), options, on_text);
}

GenerateResult Session::generate(const std::vector<int32_t> &prompt, const GenerateOptions &options,
                                 const TextCallback &on_text) {
  auto [spans, active_from] = plan_spans(prompt, options.adapters);
  RequestHandle handle = submit(*engine_, {.prompt = prompt,
                                           .spans = std::move(spans),
                                           .sampling = options.sampling,
                                           .n_predict = options.n_predict,
                                           .stop = options.stop,
                                           .ignore_eos = options.ignore_eos,
                                           .grammar = options.grammar,
                                           .json_schema = options.json_schema});
  GenerateResult result = Collector(handle, on_text).collect();
  result.active_from = std::move(active_from);
  return result;
}

std::vector<float> Session::logits(const std::vector<int32_t> &tokens,
                                   const std::vector<WornAdapter> &adapters) {
  RequestHandle handle = submit(*engine_, {.prompt = tokens,
                                           .spans = plan_spans(tokens, adapters).spans,
                                           .n_predict = 0,
                                           .prompt_logits = true});
  std::vector<float> logits;
  while (auto event = handle.next()) {
    if (const auto *part = std::get_if<LogitsEvent>(&*event))
      logits.insert(logits.end(), part->logits.begin(), part->logits.end());
    if (const auto *end = std::get_if<RequestEnd>(&*event); end != nullptr && end->error)
      raise(*end->error);
  }
  return logits;
}

}  // namespace patchbay
