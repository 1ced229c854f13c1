#include "server/llama_slots.h"

#include <map>
#include <memory>
#include <vector>

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

using Active = std::shared_ptr<const ActiveRequest>;

/// First choices under their requests' slots; others, and requests whose slot is taken already,
/// under whichever are free. What waits beyond that is under none.
std::map<uint32_t, Active> by_slot(const std::vector<Active> &requests, uint32_t n_slots) {
  std::map<uint32_t, Active> taken;
  std::vector<Active> others;
  for (const auto &request : requests) {
    const bool is_first = taken.try_emplace(request->slot, request).second;
    others.insert(others.end(), request->n_choices - (is_first ? 1 : 0), request);
  }
  uint32_t slot = 0;
  for (const auto &request : others) {
    while (taken.contains(slot)) ++slot;
    if (slot >= n_slots) break;
    taken.emplace(slot, request);
  }
  return taken;
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
  const uint32_t n_ctx = service.engine.n_ctx();
  Json list = Json::array();
  for (uint32_t slot = 0; slot < service.n_seqs_max; ++slot)
    list.push_back(slot_json(slot, n_ctx, Json(nullptr)));
  for (const auto &[slot, active] : by_slot(service.active.list(), service.n_seqs_max))
    list[slot] = busy_slot(slot, n_ctx, *active, principal);
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
