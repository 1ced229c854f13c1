#include "server/openai_models.h"

#include <fmt/format.h>

#include "server/json_text.h"

namespace patchbay {
namespace {

Json base_card(const Service &service) {
  Json card{{"id", service.model_id},
            {"object", "model"},
            {"created", service.started_at},
            {"owned_by", "patchbay"},
            {"root", service.model_path},
            {"parent", nullptr},
            {"max_model_len", service.engine.n_ctx()},
            {"permission", Json::array()}};
  if (!service.tags.empty()) card["tags"] = service.tags;
  return card;
}

Json adapter_card(const Service &service, const RegisteredAdapter &entry) {
  return {{"id", entry.name},         {"object", "model"},          {"created", entry.loaded_at},
          {"owned_by", "patchbay"},   {"root", entry.path},         {"parent", service.model_id},
          {"max_model_len", nullptr}, {"permission", Json::array()}};
}

HttpResponse list(const Service &service, const Principal &principal) {
  Json cards = Json::array({base_card(service)});
  for (const auto &entry : service.registry.list()) {
    const bool is_hidden = service.hidden.contains(entry.name);
    if (!is_hidden && principal.may_wear(entry.name)) cards.push_back(adapter_card(service, entry));
  }
  return json_response({{"object", "list"}, {"data", std::move(cards)}});
}

HttpResponse retrieve(const Service &service, const RouteContext &context) {
  if (context.rest == service.model_id) return json_response(base_card(service));
  const auto entry = service.registry.find(context.rest);
  if (entry && context.principal.may_wear(entry->name))
    return json_response(adapter_card(service, *entry));
  ApiError error;
  error.error.code = ErrorCode::not_found;
  error.error.message = fmt::format("The model `{}` does not exist.", context.rest);
  error.param = "model";
  return error_response(error, ErrorShape::openai);
}

}  // namespace

void add_openai_models(Router &router, Service &service) {
  router.add({.method = "GET",
              .path = "/v1/models",
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return list(service, context.principal);
              })});
  router.add({.method = "GET",
              .path = "/v1/models/*",
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return retrieve(service, context);
              })});
}

}  // namespace patchbay
