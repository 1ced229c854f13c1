#include "server/llama_adapters.h"

#include <limits>

#include "server/json_fields.h"

namespace patchbay {
namespace {

HttpResponse refuse(const Error &error) {
  ApiError api;
  api.error = error;
  return error_response(api, ErrorShape::llama_server);
}

Json card(const Service &service, const RegisteredAdapter &entry) {
  const Adapter &adapter = *entry.adapter;
  Json json{{"id", entry.id},
            {"name", entry.name},
            {"path", entry.path},
            {"scale", service.registry.default_strength(entry.id)},
            {"task_name", adapter.task_name},
            {"prompt_prefix", adapter.prompt_prefix}};
  if (!adapter.notes.empty()) json["notes"] = adapter.notes;
  if (adapter.invocation_tokens.empty()) return json;
  json["alora_invocation_string"] = service.model->has_tokenizer()
                                        ? service.model->detokenize(adapter.invocation_tokens)
                                        : std::string();
  json["alora_invocation_tokens"] = adapter.invocation_tokens;
  return json;
}

HttpResponse list(const Service &service, const Principal &principal) {
  Json cards = Json::array();
  for (const auto &entry : service.registry.list()) {
    if (principal.may_wear(entry.name)) cards.push_back(card(service, entry));
  }
  return json_response(cards);
}

HttpResponse set_defaults(Service &service, const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return refuse(body.error());
  if (!body->is_array()) {
    return refuse({ErrorCode::invalid_argument,
                   "the body must be an array of {\"id\", \"scale\"}, found " + describe(*body)});
  }
  std::vector<DefaultAdapter> defaults;
  for (const Json &item : *body) {
    JsonFields fields(item, "[]");
    const auto id = fields.integer("id", 0, std::numeric_limits<int64_t>::max());
    constexpr double k_most = std::numeric_limits<float>::max();
    const auto scale = fields.number("scale", -k_most, k_most);
    const bool is_whole = id && scale;
    if (!is_whole) fields.refuse("", "an object with id and scale", item);
    if (fields.error() != nullptr || !is_whole) return refuse(fields.error()->error);
    const DefaultAdapter one{*id, static_cast<float>(*scale)};
    const auto is_same = [&](const DefaultAdapter &other) { return other.id == one.id; };
    if (std::ranges::any_of(defaults, is_same))
      return refuse(
          {ErrorCode::invalid_argument, "id " + std::to_string(one.id) + " is there twice"});
    defaults.push_back(one);
  }
  const auto set = service.registry.set_defaults(defaults);
  return set ? json_response({{"success", true}}) : refuse(set.error());
}

}  // namespace

void add_llama_adapters(Router &router, Service &service) {
  router.add({.method = "GET",
              .path = "/lora-adapters",
              .errors = ErrorShape::llama_server,
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return list(service, context.principal);
              })});
  router.add({.method = "POST",
              .path = "/lora-adapters",
              .errors = ErrorShape::llama_server,
              .scope = RouteScope::admin,
              .handler = answer_with([&service](const HttpRequest &request, const RouteContext &) {
                return set_defaults(service, request);
              })});
}

}  // namespace patchbay
