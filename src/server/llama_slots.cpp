#include "server/llama_slots.h"

namespace patchbay {
namespace {

Json next_token(int32_t n_remain, uint32_t n_decoded) {
  return {{"has_next_token", true},
          {"has_new_line", false},
          {"n_remain", n_remain},
          {"n_decoded", n_decoded},
          {"stopping_word", ""}};
}

/// What a request's answer looks like in a slot; of other tenants' only that there is one.
Json busy_slot(size_t id, uint32_t n_ctx, const ActiveRequest &request,
               const Principal &principal) {
  const bool is_shown = principal.is_admin || principal.tenant == request.tenant;
  Json json = slot_json(id, n_ctx, is_shown ? request.settings : Json(nullptr));
  json["id_task"] = request.number;
  json["is_processing"] = true;
  if (!is_shown) return json;
  const uint32_t n_decoded = request.n_decoded / request.n_choices;
  const int32_t n_remain =
      request.n_predict < 0 ? -1 : request.n_predict - static_cast<int32_t>(n_decoded);
  json["next_token"] = next_token(n_remain, n_decoded);
  return json;
}

HttpResponse slots(const Service &service, const HttpRequest &request, const Principal &principal) {
  const EngineStats stats = service.engine.stats();
  const auto fail_on_no_slot = request.query_value("fail_on_no_slot").value_or("");
  if (!fail_on_no_slot.empty() && fail_on_no_slot != "0" && stats.n_running >= service.n_seqs_max) {
    ApiError error;
    error.error.code = ErrorCode::unavailable;
    error.error.message = "no slot is free";
    return error_response(error, ErrorShape::llama_server);
  }
  Json list = Json::array();
  const uint32_t n_ctx = service.engine.n_ctx();
  for (const auto &active : service.active.list()) {
    for (uint32_t i = 0; i < active->n_choices && list.size() < service.n_seqs_max; ++i)
      list.push_back(busy_slot(list.size(), n_ctx, *active, principal));
  }
  while (list.size() < service.n_seqs_max)
    list.push_back(slot_json(list.size(), n_ctx, Json(nullptr)));
  return json_response(list);
}

}  // namespace

Json slot_json(size_t id, uint32_t n_ctx, Json settings) {
  Json json{{"id", id},
            {"id_task", -1},
            {"n_ctx", n_ctx},
            {"speculative", false},
            {"is_processing", false}};
  if (!settings.is_null()) json["params"] = std::move(settings);
  json["next_token"] = next_token(-1, 0);
  return json;
}

void add_llama_slots(Router &router, Service &service) {
  if (!service.has_slots) return;
  router.add(
      {.method = "GET",
       .path = "/slots",
       .errors = ErrorShape::llama_server,
       .handler = answer_with([&service](const HttpRequest &request, const RouteContext &context) {
         return slots(service, request, context.principal);
       })});
}

}  // namespace patchbay
