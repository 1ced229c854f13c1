#include "server/sglang_adapters.h"

#include "server/adapter_routes.h"

namespace patchbay {
namespace {

/// Success or not, the answer lists what is loaded.
HttpResponse answer(const Service &service, const std::string &error_message) {
  Json loaded = Json::object();
  for (const auto &entry : service.registry.list()) loaded[entry.name] = entry.path;
  HttpResponse response =
      json_response({{"success", error_message.empty()},
                     {"error_message", error_message.empty() ? Json(nullptr) : Json(error_message)},
                     {"loaded_adapters", std::move(loaded)}});
  if (!error_message.empty()) response.status = 400;
  return response;
}

asio::awaitable<HttpResponse> load(Service &service, const Exchange &exchange) {
  const auto body = parse_body(exchange.request().body);
  if (!body) co_return answer(service, body.error().message);
  JsonFields fields(*body);
  LoadWish wish;
  wish.name = fields.text("lora_name").value_or("");
  wish.path = fields.text("lora_path").value_or("");
  (void)fields.flag("pinned");  // nothing loaded is ever thrown out by itself
  if (fields.error() != nullptr) co_return answer(service, fields.error()->error.message);
  if (wish.name.empty() || wish.path.empty())
    co_return answer(service, "lora_name and lora_path must be given");
  const auto loaded = co_await load_adapter_of(service, std::move(wish));
  co_return answer(service, loaded ? "" : loaded.error().message);
}

HttpResponse unload(Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return answer(service, body.error().message);
  JsonFields fields(*body);
  const std::string name = fields.text("lora_name").value_or("");
  if (fields.error() != nullptr) return answer(service, fields.error()->error.message);
  const auto removed = unload_adapter_of(service, name);
  return answer(service, removed ? "" : removed.error().message);
}

}  // namespace

void add_sglang_adapters(Router &router, Service &service) {
  router.add({.method = "POST",
              .path = "/load_lora_adapter",
              .scope = RouteScope::admin,
              .is_work = true,
              .handler = answer_later(
                  [&service](const Exchange &exchange) { return load(service, exchange); })});
  router.add({.method = "POST",
              .path = "/unload_lora_adapter",
              .scope = RouteScope::admin,
              .handler = answer_with([&service](const HttpRequest &request, const RouteContext &) {
                return unload(service, request);
              })});
}

}  // namespace patchbay
