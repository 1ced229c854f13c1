#include "server/llama_server.h"

#include "server/json_fields.h"
#include "server/llama_completion.h"
#include "server/llama_slots.h"
#include "server/sampling_fields.h"

namespace patchbay {
namespace {

HttpResponse refuse(const ApiError &error) {
  return error_response(error, ErrorShape::llama_server);
}

HttpResponse refuse(const Error &error) {
  ApiError api;
  api.error = error;
  return refuse(api);
}

HttpResponse health(const Service &service) {
  if (!service.is_draining) return json_response({{"status", "ok"}});
  return refuse(Error{ErrorCode::unavailable, "the server is shutting down"});
}

HttpResponse props(const Service &service) {
  Request defaults;
  const Json none = Json::object();
  JsonFields nothing(none);
  read_sampling(nothing, defaults, service.defaults);
  defaults.n_predict = service.defaults.n_predict.value_or(-1);
  Json settings = slot_json(0, service.engine.n_ctx(), generation_settings(defaults));
  return json_response({{"default_generation_settings", std::move(settings)},
                        {"total_slots", service.n_seqs_max},
                        {"model_alias", service.model_id},
                        {"model_path", service.model_path},
                        {"modalities", {{"vision", false}, {"audio", false}}},
                        {"build_info", "patchbay"},
                        {"is_sleeping", false}});
}

HttpResponse tokenize(const Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  JsonFields fields(*body);
  const std::string content = fields.text("content").value_or("");
  const bool add_special = fields.flag("add_special").value_or(false);
  const bool with_pieces = fields.flag("with_pieces").value_or(false);
  const auto tokens = tokens_of(fields, "content", content, *service.model, add_special);
  if (fields.error() != nullptr || !tokens) return refuse(*fields.error());
  Json list = Json::array();
  for (const int32_t token : *tokens) {
    if (with_pieces) {
      list.push_back({{"id", token}, {"piece", service.model->detokenize({token})}});
    } else {
      list.push_back(token);
    }
  }
  return json_response({{"tokens", std::move(list)}});
}

HttpResponse detokenize(const Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  JsonFields fields(*body);
  const Json *list = fields.array("tokens");
  const auto tokens =
      tokens_of(fields, "tokens", list == nullptr ? Json::array() : *list, *service.model, false);
  if (fields.error() != nullptr || !tokens) return refuse(*fields.error());
  const auto n_vocab = static_cast<int32_t>(service.model->n_vocab());
  for (const int32_t token : *tokens) {
    if (token >= n_vocab)
      fields.refuse("tokens", "ids below " + std::to_string(n_vocab), Json(token));
  }
  if (fields.error() != nullptr) return refuse(*fields.error());
  return json_response({{"content", service.model->detokenize(*tokens)}});
}

}  // namespace

void add_llama_server(Router &router, Service &service) {
  const auto add = [&](const char *method, const char *path, RouteScope scope, auto answer) {
    router.add({.method = method,
                .path = path,
                .errors = ErrorShape::llama_server,
                .scope = scope,
                .handler = answer_with([&service, answer](const HttpRequest &request,
                                                          const RouteContext & /*context*/) {
                  return answer(service, request);
                })});
  };
  const auto health_of = [](const Service &s, const HttpRequest &) { return health(s); };
  add("GET", "/health", RouteScope::open, health_of);
  add("GET", "/v1/health", RouteScope::open, health_of);
  add("GET", "/props", RouteScope::key,
      [](const Service &s, const HttpRequest &) { return props(s); });
  add("POST", "/tokenize", RouteScope::key, tokenize);
  add("POST", "/detokenize", RouteScope::key, detokenize);
}

}  // namespace patchbay
