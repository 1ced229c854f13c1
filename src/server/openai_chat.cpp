#include "server/openai_chat.h"

#include <memory>

#include "engine/loaded_model.h"
#include "server/chat_format.h"
#include "server/output_fields.h"
#include "server/sampling_fields.h"
#include "server/slot_field.h"

namespace patchbay {
namespace {

constexpr int64_t k_most_logprobs = 20;

void read_logprobs(JsonFields &fields, Request &request) {
  const bool wanted = fields.flag("logprobs").value_or(false);
  const auto n_top = fields.integer("top_logprobs", 0, k_most_logprobs);
  if (wanted) request.n_logprobs = static_cast<uint32_t>(n_top.value_or(0));
  if (!wanted && n_top.value_or(0) > 0)
    fields.refuse("logprobs", "true where top_logprobs are wanted", false);
}

DialectRequest read_chat(JsonFields &fields, const Service &service) {
  DialectRequest asked;
  Request &request = asked.request;
  // OpenAI's defaults: all of the distribution, until the answer ends by itself.
  request.sampling = {.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0};
  asked.wish = read_adapter_wish(fields);
  read_sampling(fields, request, service.defaults);
  read_output_form(fields, request);
  read_logprobs(fields, request);
  request.n_predict = read_n_predict(fields, {"max_completion_tokens", "max_tokens", "n_predict"},
                                     service.defaults.n_predict.value_or(-1));
  asked.stream = fields.flag("stream").value_or(false);
  asked.slot = read_slot(fields, service);
  const ChatFormat::Options options{.with_logprobs = request.n_logprobs.has_value(),
                                    .stream = asked.stream,
                                    .include_usage = read_include_usage(fields),
                                    .n_choices = request.n_choices};
  asked.format = std::make_unique<ChatFormat>(service, read_chat_request(fields), options);
  return asked;
}

HttpResponse refuse_template(const ApiError &error) {
  return error_response(error, ErrorShape::llama_server);
}

HttpResponse show_template(const Service &service, const AdapterChoice &choice,
                           const ChatRequest &chat) {
  const auto chosen = template_for(service, choice, chat);
  const auto text =
      chosen ? chat_text(**chosen, *service.model->loaded()->tokenizer, chat.conversation)
             : Expected<std::string>(tl::unexpected(chosen.error()));
  if (text) return json_response({{"prompt", *text}});
  ApiError error;
  error.error = text.error();
  return refuse_template(error);
}

/// The prompt that a chat would have.
asio::awaitable<void> apply_template(Service &service, Exchange &exchange, RouteContext context) {
  const auto body = parse_body(exchange.request().body);
  ApiError error;
  AdapterWish wish;
  ChatRequest chat;
  if (body) {
    JsonFields fields(*body);
    wish = read_adapter_wish(fields);
    chat = read_chat_request(fields);
    if (fields.error() != nullptr) error = *fields.error();
  } else {
    error.error = body.error();
  }
  HttpResponse response;
  if (error.error.message.empty()) {
    Principal principal = std::move(context.principal);
    AdapterChoice choice = co_await choose_adapters(service, std::move(principal), std::move(wish));
    response = choice.error ? refuse_template(*choice.error) : show_template(service, choice, chat);
  } else {
    response = refuse_template(error);
  }
  (void)co_await exchange.send(std::move(response));
}

}  // namespace

void add_openai_chat(Router &router, Service &service) {
  for (const char *path : {"/v1/chat/completions", "/chat/completions"}) {
    router.add({.method = "POST",
                .path = path,
                .is_work = true,
                .handler = generation_route(service, ErrorShape::openai, read_chat)});
  }
  router.add(
      {.method = "POST",
       .path = "/apply-template",
       .errors = ErrorShape::llama_server,
       .handler = [&service](Exchange &exchange, RouteContext context) -> asio::awaitable<void> {
         co_await apply_template(service, exchange, std::move(context));
       }});
}

}  // namespace patchbay
