#include "server/dynamo_adapters.h"

#include <fmt/format.h>

#include "server/adapter_routes.h"

namespace patchbay {
namespace {

/// Theirs count from 1.
int64_t lora_id(const RegisteredAdapter &entry) { return entry.id + 1; }

HttpResponse refuse(const Error &error) {
  ApiError api;
  api.error = error;
  return error_response(api, ErrorShape::openai);
}

HttpResponse success(const RegisteredAdapter &entry, const char *what) {
  return json_response({{"status", "success"},
                        {"message", fmt::format("LoRA adapter '{}' {}", entry.name, what)},
                        {"lora_name", entry.name},
                        {"lora_id", lora_id(entry)}});
}

HttpResponse list(const Service &service, const Principal &principal) {
  Json loras = Json::object();
  for (const auto &entry : service.registry.list()) {
    if (principal.may_wear(entry.name)) loras[entry.name] = lora_id(entry);
  }
  const size_t count = loras.size();
  return json_response({{"status", "success"}, {"loras", std::move(loras)}, {"count", count}});
}

/// The path of a file:// URI, decoded; other schemes are not ours to fetch.
Expected<std::string> path_of(const std::string &uri) {
  constexpr std::string_view k_scheme = "file://";
  const auto path =
      uri.starts_with(k_scheme) ? percent_decode(uri.substr(k_scheme.size())) : std::nullopt;
  if (path && path->starts_with('/')) return *path;
  return fail(ErrorCode::invalid_argument,
              fmt::format("source.uri must be file:///..., found {}", uri));
}

asio::awaitable<HttpResponse> load(Service &service, const Exchange &exchange) {
  const auto body = parse_body(exchange.request().body);
  if (!body) co_return refuse(body.error());
  JsonFields fields(*body);
  LoadWish wish;
  wish.name = fields.text("lora_name").value_or("");
  const Json none = Json::object();
  const Json *source = fields.object("source");
  JsonFields inner(source == nullptr ? none : *source, "source");
  const std::string uri = inner.text("uri").value_or("");
  if (inner.error() != nullptr) fields.take_error(*inner.error());
  if (fields.error() != nullptr) co_return refuse(fields.error()->error);
  const auto path = path_of(uri);
  if (!path) co_return refuse(path.error());
  wish.path = *path;
  const auto loaded = co_await load_adapter_of(service, std::move(wish));
  co_return loaded ? success(*loaded, "loaded") : refuse(loaded.error());
}

HttpResponse unload(Service &service, const std::string &name) {
  const auto removed = unload_adapter_of(service, name);
  return removed ? success(*removed, "unloaded") : refuse(removed.error());
}

}  // namespace

void add_dynamo_adapters(Router &router, Service &service) {
  router.add({.method = "GET",
              .path = "/v1/loras",
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return list(service, context.principal);
              })});
  router.add({.method = "POST",
              .path = "/v1/loras",
              .scope = RouteScope::admin,
              .is_work = true,
              .handler = answer_later(
                  [&service](const Exchange &exchange) { return load(service, exchange); })});
  router.add({.method = "DELETE",
              .path = "/v1/loras/*",
              .scope = RouteScope::admin,
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return unload(service, context.rest);
              })});
}

}  // namespace patchbay
