#include "server/generate.h"

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "server/event_source.h"
#include "server/llama_completion.h"

namespace patchbay {
namespace {

void add_worn_headers(Exchange &exchange, const std::vector<WornEntry> &worn) {
  std::string names = header_of(acting_names(worn));
  exchange.notes().adapters = names;
  if (!names.empty()) exchange.add_header("x-adapter-id", std::move(names));
  std::string silent = header_of(names_not_invoked(worn));
  if (!silent.empty()) exchange.add_header("x-adapter-not-invoked", std::move(silent));
}

/// One request on its way through the engine.
class Generation {
 public:
  Generation(Service &service, Exchange &exchange, ErrorShape errors, DialectRequest asked)
      : service_(service), exchange_(exchange), errors_(errors), asked_(std::move(asked)) {}

  asio::awaitable<void> run(Principal principal) {
    asked_.request.tenant = principal.tenant;
    exchange_.notes().tenant = principal.tenant;
    AdapterWish wish = std::move(asked_.wish);
    AdapterChoice choice =
        co_await choose_adapters(service_, std::move(principal), std::move(wish));
    if (choice.error) co_return co_await refuse(std::move(*choice.error));
    auto wrong = asked_.format->prepare(choice, asked_.request);
    if (wrong) co_return co_await refuse(error_of(std::move(*wrong)));
    wear(choice.worn, asked_.request);
    asked_.format->choose(choice);
    add_worn_headers(exchange_, choice.worn);
    meter_ = std::make_unique<RequestMeter>(service_.traffic, acting_names(choice.worn), begin_);
    n_tokens_prompt_ = asked_.request.prompt.size();
    exchange_.notes().n_tokens_prompt = static_cast<uint32_t>(n_tokens_prompt_);
    if (service_.log_prompts)
      exchange_.notes().prompt = service_.model->detokenize(asked_.request.prompt);
    const uint32_t n_choices = asked_.request.n_choices;
    Json settings = generation_settings(asked_.request);
    settings["stream"] = asked_.stream;
    settings["lora"] = worn_json(choice.worn);
    active_ = service_.active.add(asked_.request, std::move(settings), asked_.slot);
    asked_.format->take_slot(active_->slot);
    if (service_.slot_files.is_on()) computed_ = SlotMemory::of(asked_.request);
    EventSource source(co_await asio::this_coro::executor, exchange_.stream());
    auto refused = source.submit(service_.engine, std::move(asked_.request));
    if (refused) {
      meter_->refuse(*refused);
      co_return co_await refuse(error_of(std::move(*refused)));
    }
    if (asked_.stream) {
      co_await stream(source);
    } else {
      co_await answer(source, n_choices);
    }
  }

  asio::awaitable<void> refuse(ApiError error) {
    HttpResponse response = error_response(error, errors_);
    (void)co_await exchange_.send(std::move(response));
  }

 private:
  [[nodiscard]] ApiError error_of(Error error) const {
    ApiError api;
    api.error = std::move(error);
    if (api.error.code == ErrorCode::context_overflow)
      api.context = {static_cast<uint32_t>(n_tokens_prompt_), service_.engine.n_ctx()};
    return api;
  }

  asio::awaitable<void> answer(EventSource &source, uint32_t n_choices) {
    AnswerCollector collector(n_choices);
    bool is_over = false;
    while (!is_over) {
      const auto woken = co_await source.wait(service_.stream_ping);
      if (woken == EventSource::Woken::gone) co_return exchange_.close();
      if (woken == EventSource::Woken::event) is_over = collector.add(take(source));
    }
    if (collector.error()) co_return co_await refuse(error_of(*collector.error()));
    HttpResponse response = asked_.format->whole(collector.take());
    (void)co_await exchange_.send(std::move(response));
  }

  asio::awaitable<void> stream(EventSource &source) {
    while (true) {
      const auto woken = co_await source.wait(service_.stream_ping);
      if (woken == EventSource::Woken::gone) co_return exchange_.close();
      std::string text = ": keep-alive\n\n";
      std::optional<Event> event;
      if (woken == EventSource::Woken::event) {
        event = take(source);
        text = text_of(*event);
      }
      if (event && std::holds_alternative<RequestEnd>(*event)) {
        RequestEnd end = std::get<RequestEnd>(std::move(*event));
        co_return co_await end_stream(std::move(end));
      }
      const bool is_written = co_await write(std::move(text));
      if (!is_written) co_return exchange_.close();
    }
  }

  Event take(EventSource &source) {
    Event event = source.take();
    meter_->note(event);
    if (const auto *token = std::get_if<TokenEvent>(&event)) {
      ++active_->n_decoded;
      if (computed_ && token->i_choice == 0) computed_->tokens.push_back(token->token);
    }
    if (const auto *end = std::get_if<ChoiceEnd>(&event))
      exchange_.notes().finish_reason = to_string(end->reason);
    if (const auto *end = std::get_if<RequestEnd>(&event)) {
      if (computed_ && !end->error)
        service_.slot_memory.remember(active_->slot, std::move(*computed_));
      computed_.reset();
      exchange_.notes().n_tokens_prompt = end->usage.n_tokens_prompt;
      exchange_.notes().n_tokens_cached = end->usage.n_tokens_cached;
      exchange_.notes().n_tokens_out = end->usage.n_tokens_out;
    }
    return event;
  }

  [[nodiscard]] std::string text_of(const Event &event) const {
    if (const auto *token = std::get_if<TokenEvent>(&event)) return asked_.format->token(*token);
    if (const auto *end = std::get_if<ChoiceEnd>(&event)) return asked_.format->choice_end(*end);
    return {};
  }

  /// The head goes out with the first text, so that an error at the beginning still has a status of
  /// its own.
  asio::awaitable<bool> write(std::string text) {
    if (text.empty()) co_return true;
    if (!has_begun_) {
      has_begun_ = true;
      const bool is_begun = co_await exchange_.begin_stream("text/event-stream; charset=utf-8");
      if (!is_begun) co_return false;
      text = asked_.format->begin() + text;
    }
    co_return co_await exchange_.write(text);
  }

  asio::awaitable<void> end_stream(RequestEnd end) {
    if (end.error && !has_begun_) co_return co_await refuse(error_of(std::move(*end.error)));
    std::string last = end.error ? sse_data(error_body(error_of(*end.error), errors_))
                                 : asked_.format->end(end.usage);
    const bool is_written = co_await write(std::move(last));
    if (is_written) (void)co_await exchange_.end_stream();
  }

  Service &service_;
  Exchange &exchange_;
  ErrorShape errors_;
  DialectRequest asked_;
  RequestMeter::Clock::time_point begin_ = RequestMeter::Clock::now();
  std::shared_ptr<ActiveRequest> active_;
  std::optional<SlotMemory::Computed> computed_;  // none: nobody will ask for it
  std::unique_ptr<RequestMeter> meter_;           // once it is known what is worn
  size_t n_tokens_prompt_ = 0;
  bool has_begun_ = false;
};

asio::awaitable<void> generate(Service &service, ErrorShape errors, const DialectReader &read,
                               Exchange &exchange, RouteContext context) {
  auto body = parse_body(exchange.request().body);
  ApiError error;
  DialectRequest asked;
  if (body) {
    JsonFields fields(*body);
    asked = read(fields, service);
    if (fields.error() != nullptr) error = *fields.error();
  } else {
    error.error = body.error();
  }
  Generation generation(service, exchange, errors, std::move(asked));
  if (!error.error.message.empty()) co_return co_await generation.refuse(std::move(error));
  Principal principal = std::move(context.principal);
  co_await generation.run(std::move(principal));
}

}  // namespace

std::string sse_data(std::string_view data) {
  std::string event = "data: ";
  event += data;
  event += "\n\n";
  return event;
}

RouteHandler generation_route(Service &service, ErrorShape errors, DialectReader read) {
  return [&service, errors, read = std::move(read)](Exchange &exchange,
                                                    RouteContext context) -> asio::awaitable<void> {
    co_await generate(service, errors, read, exchange, std::move(context));
  };
}

}  // namespace patchbay
