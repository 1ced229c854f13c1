#include "server/embeddings.h"

#include <limits>

#include "server/embedding_format.h"
#include "server/embedding_run.h"
#include "server/prompt_fields.h"

namespace patchbay {
namespace {

constexpr size_t k_most_inputs = 2048;  // as OpenAI has it

/// What both dialects read, and how they want the vectors.
struct Asked {
  EmbeddingWish wish;
  bool as_base64 = false;
  int p_norm = 2;
};

bool is_list_of_prompts(const Json &input) {
  return input.is_array() && (input.empty() || !input[0].is_number());
}

/// A text, token ids, or a list of either.
void read_prompts(JsonFields &fields, const char *name, const Json &input, const Service &service,
                  std::vector<std::vector<int32_t>> &prompts) {
  const auto add = [&](const Json &one) {
    const bool is_empty =
        one.empty() || (one.is_string() && one.get_ref<const std::string &>().empty());
    if (is_empty)
      return fields.refuse(name, "a text or token ids, or a list of these, none empty", one);
    auto tokens = prompt_tokens_of(fields, name, one, service);
    if (tokens) prompts.push_back(std::move(*tokens));
  };
  if (!is_list_of_prompts(input)) return add(input);
  if (input.empty() || input.size() > k_most_inputs)
    return fields.refuse(name, "1 to 2048 texts", input);
  for (const Json &one : input) {
    if (fields.error() == nullptr) add(one);
  }
}

Asked read_openai(JsonFields &fields, const Service &service) {
  Asked asked;
  asked.wish.adapters = read_adapter_wish(fields);
  const Json missing;
  const Json *input = fields.any("input");
  read_prompts(fields, "input", input == nullptr ? missing : *input, service, asked.wish.prompts);
  const std::string format = fields.text("encoding_format").value_or("float");
  asked.as_base64 = format == "base64";
  if (!asked.as_base64 && format != "float")
    fields.refuse("encoding_format", "float or base64", Json(format));
  const auto n_embd = int64_t{service.model->loaded()->hparams().n_embd};
  // Only models that were trained for it may be cut.
  (void)fields.integer("dimensions", n_embd, n_embd);
  asked.wish.pooling = service.pooling;
  if (service.pooling == Pooling::none && fields.error() == nullptr) {
    ApiError error;
    error.error.code = ErrorCode::invalid_argument;
    error.error.message = "the server pools no embeddings (--pooling none): ask /embedding";
    fields.take_error(error);
  }
  return asked;
}

Asked read_llama(JsonFields &fields, const Service &service) {
  Asked asked;
  asked.wish.adapters = read_adapter_wish(fields);
  const char *name = fields.any("content") != nullptr ? "content" : "input";
  const Json missing;
  const Json *input = fields.any(name);
  read_prompts(fields, name, input == nullptr ? missing : *input, service, asked.wish.prompts);
  constexpr int64_t k_most_p = 100;
  asked.p_norm = static_cast<int>(
      fields.integer("embd_normalize", -1, k_most_p).value_or(service.embd_normalize));
  asked.wish.pooling = service.pooling;
  return asked;
}

Json openai_answer(const Asked &asked, Embeddings &embeddings) {
  Json data = Json::array();
  for (size_t i = 0; i < embeddings.vectors.size(); ++i) {
    std::vector<float> &vector = embeddings.vectors[i];
    normalise(vector, asked.p_norm);
    data.push_back(
        {{"object", "embedding"},
         {"index", i},
         {"embedding", asked.as_base64 ? Json(base64_of(vector)) : number_array(vector)}});
  }
  return {
      {"object", "list"},
      {"data", std::move(data)},
      {"model", embeddings.model},
      {"usage", {{"prompt_tokens", embeddings.n_tokens}, {"total_tokens", embeddings.n_tokens}}}};
}

/// A list of vectors for each prompt; without pooling one for each token, as they are.
Json llama_answer(const Asked &asked, Embeddings &embeddings, size_t n_embd) {
  Json answer = Json::array();
  for (size_t i = 0; i < embeddings.vectors.size(); ++i) {
    std::span<float> rest = embeddings.vectors[i];
    if (asked.wish.pooling != Pooling::none) normalise(rest, asked.p_norm);
    Json rows = Json::array();
    for (; !rest.empty(); rest = rest.subspan(n_embd))
      rows.push_back(number_array(rest.first(n_embd)));
    answer.push_back({{"index", i}, {"embedding", std::move(rows)}});
  }
  return answer;
}

asio::awaitable<void> refuse(Exchange &exchange, ApiError error, ErrorShape shape) {
  HttpResponse response = error_response(error, shape);
  (void)co_await exchange.send(std::move(response));
}

asio::awaitable<void> answer(Service &service, Exchange &exchange, Principal principal,
                             ErrorShape shape) {
  const bool is_openai = shape == ErrorShape::openai;
  auto body = parse_body(exchange.request().body);
  ApiError error;
  Asked asked;
  if (body) {
    JsonFields fields(*body);
    asked = is_openai ? read_openai(fields, service) : read_llama(fields, service);
    if (fields.error() != nullptr) error = *fields.error();
  } else {
    error.error = body.error();
  }
  if (!error.error.message.empty()) co_return co_await refuse(exchange, std::move(error), shape);
  EmbeddingWish wish = std::move(asked.wish);
  asked.wish.pooling = wish.pooling;
  Embeddings embeddings =
      co_await embed_prompts(service, exchange, std::move(principal), std::move(wish));
  if (embeddings.is_gone) co_return exchange.close();
  if (embeddings.error) {
    ApiError refused = std::move(*embeddings.error);
    co_return co_await refuse(exchange, std::move(refused), shape);
  }
  HttpResponse response = json_response(
      is_openai ? openai_answer(asked, embeddings)
                : llama_answer(asked, embeddings, service.model->loaded()->hparams().n_embd));
  (void)co_await exchange.send(std::move(response));
}

}  // namespace

void add_embeddings(Router &router, Service &service) {
  const auto add = [&](const char *path, ErrorShape shape) {
    router.add({.method = "POST",
                .path = path,
                .errors = shape,
                .is_work = true,
                .handler = [&service, shape](Exchange &exchange,
                                             RouteContext context) -> asio::awaitable<void> {
                  Principal principal = std::move(context.principal);
                  co_await answer(service, exchange, std::move(principal), shape);
                }});
  };
  add("/v1/embeddings", ErrorShape::openai);
  add("/embedding", ErrorShape::llama_server);
  add("/embeddings", ErrorShape::llama_server);
}

}  // namespace patchbay
