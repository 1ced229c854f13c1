#include "server/vllm_adapters.h"

#include <fmt/format.h>

#include "server/adapter_routes.h"

namespace patchbay {
namespace {

HttpResponse success(const std::string &name, const char *what) {
  HttpResponse response;
  response.body = fmt::format("Success: LoRA adapter '{}' {} successfully.", name, what);
  response.content_type = "text/plain; charset=utf-8";
  return response;
}

/// `param` tells the fault of a file from that of the caller.
HttpResponse refuse(const Error &error, std::string param = {}) {
  ApiError api;
  api.error = error;
  api.param = std::move(param);
  return error_response(api, ErrorShape::vllm_load);
}

bool is_callers_fault(const Error &error) {
  return error.message.find("has already been loaded") != std::string::npos;
}

asio::awaitable<HttpResponse> load(Service &service, const Exchange &exchange) {
  const auto body = parse_body(exchange.request().body);
  if (!body) co_return refuse(body.error());
  JsonFields fields(*body);
  LoadWish wish;
  wish.name = fields.text("lora_name").value_or("");
  wish.path = fields.text("lora_path").value_or("");
  wish.replace = fields.flag("load_inplace").value_or(false);
  if (fields.error() != nullptr) co_return refuse(fields.error()->error, "");
  if (wish.name.empty() || wish.path.empty()) {
    const Error missing{ErrorCode::invalid_argument,
                        "Both 'lora_name' and 'lora_path' must be provided."};
    co_return refuse(missing);
  }
  const auto named = check_adapter_name(wish.name);
  const bool is_base = wish.name == service.model_id;
  auto loaded = co_await load_adapter_of(service, std::move(wish));
  if (loaded) co_return success(loaded->name, "added");
  const bool callers = !named || is_base || is_callers_fault(loaded.error());
  co_return refuse(loaded.error(), callers ? "lora_name" : "lora_path");
}

HttpResponse unload(Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  JsonFields fields(*body);
  const std::string name = fields.text("lora_name").value_or("");
  if (fields.error() != nullptr) return refuse(fields.error()->error);
  if (name.empty())
    return refuse({ErrorCode::invalid_argument, "'lora_name' must be provided."}, "lora_name");
  const auto removed = unload_adapter_of(service, name);
  return removed ? success(name, "removed") : refuse(removed.error(), "lora_name");
}

}  // namespace

void add_vllm_adapters(Router &router, Service &service) {
  router.add({.method = "POST",
              .path = "/v1/load_lora_adapter",
              .errors = ErrorShape::vllm_load,
              .scope = RouteScope::admin,
              .is_work = true,
              .handler = answer_later(
                  [&service](const Exchange &exchange) { return load(service, exchange); })});
  router.add({.method = "POST",
              .path = "/v1/unload_lora_adapter",
              .errors = ErrorShape::vllm_load,
              .scope = RouteScope::admin,
              .handler = answer_with([&service](const HttpRequest &request, const RouteContext &) {
                return unload(service, request);
              })});
}

}  // namespace patchbay
