#include "server/llama_slot_actions.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "server/json_fields.h"

namespace patchbay {
namespace {

constexpr const char *k_off =
    "slots are not saved: the server was started without --slot-save-path";

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

HttpResponse refuse(const Error &error) {
  ApiError api;
  api.error = error;
  return error_response(api, ErrorShape::llama_server);
}

Expected<uint32_t> slot_of(const std::string &digits, uint32_t n_slots) {
  uint32_t slot = 0;
  const char *last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, slot);
  if (error == std::errc() && end == last && slot < n_slots) return slot;
  return fail(ErrorCode::invalid_argument,
              fmt::format("id: wanted a slot below {}, found '{}'", n_slots, digits));
}

Expected<std::string> filename_of(const HttpRequest &request) {
  const auto body = parse_body(request.body);
  if (!body) return tl::unexpected(body.error());
  JsonFields fields(*body);
  auto name = fields.text("filename");
  if (name) return std::move(*name);
  fields.refuse("filename", "a string", Json());  // unless it is there and something else
  return tl::unexpected(fields.error()->error);
}

HttpResponse refuse(ErrorCode code, std::string message) {
  return refuse(Error{code, std::move(message)});
}

HttpResponse show(uint32_t slot, const std::string &name, const SavedSession &saved, double ms) {
  return json_response({{"id_slot", slot},
                        {"filename", name},
                        {"n_saved", saved.n_tokens},
                        {"n_written", saved.size_bytes},
                        {"timings", {{"save_ms", ms}}}});
}

HttpResponse show(uint32_t slot, const std::string &name, const RestoredSession &restored,
                  double ms) {
  return json_response({{"id_slot", slot},
                        {"filename", name},
                        {"n_restored", restored.n_tokens},
                        {"n_read", restored.size_bytes},
                        {"timings", {{"restore_ms", ms}}}});
}

HttpResponse erase(Service &service, uint32_t slot) {
  return json_response({{"id_slot", slot}, {"n_erased", service.slot_memory.forget(slot)}});
}

asio::awaitable<HttpResponse> save(Service &service, uint32_t slot, std::string name) {
  auto tokens = service.slot_memory.recall(slot);
  if (!tokens) {
    co_return refuse(ErrorCode::not_found,
                     fmt::format("slot {} holds no answer, or an adapter of it has gone", slot));
  }
  const auto begin = Clock::now();
  const auto saved = co_await service.slot_files.save(name, std::move(*tokens));
  if (!saved) co_return refuse(saved.error());
  co_return show(slot, name, *saved, ms_since(begin));
}

asio::awaitable<HttpResponse> restore(Service &service, uint32_t slot, std::string name,
                                      std::string tenant) {
  RestoreOptions options;
  options.tenant = std::move(tenant);
  for (const auto &entry : service.registry.list()) options.adapters.push_back(entry.adapter);
  const auto begin = Clock::now();
  const auto restored = co_await service.slot_files.restore(name, std::move(options));
  if (!restored) co_return refuse(restored.error());
  service.slot_memory.forget(slot);  // as llama-server replaces what it holds
  co_return show(slot, name, *restored, ms_since(begin));
}

asio::awaitable<HttpResponse> act(Service &service, const HttpRequest &request,
                                  RouteContext context) {
  if (!service.slot_files.is_on())
    co_return refuse(ErrorCode::permission_denied, std::string(k_off));
  const auto slot = slot_of(context.rest, service.n_seqs_max);
  if (!slot) co_return refuse(slot.error());
  const std::string action(request.query_value("action").value_or(""));
  if (action == "erase") co_return erase(service, *slot);
  if (action != "save" && action != "restore") {
    co_return refuse(ErrorCode::invalid_argument,
                     fmt::format("action: wanted save, restore or erase, found '{}'", action));
  }
  auto name = filename_of(request);
  if (!name) co_return refuse(name.error());
  if (action == "save") co_return co_await save(service, *slot, std::move(*name));
  std::string tenant = std::move(context.principal.tenant);
  co_return co_await restore(service, *slot, std::move(*name), std::move(tenant));
}

}  // namespace

void add_llama_slot_actions(Router &router, Service &service) {
  router.add(
      {.method = "POST",
       .path = "/slots/*",
       .errors = ErrorShape::llama_server,
       .scope = RouteScope::admin,
       .is_work = true,
       .handler = [&service](Exchange &exchange, RouteContext context) -> asio::awaitable<void> {
         HttpResponse response = co_await act(service, exchange.request(), std::move(context));
         (void)co_await exchange.send(std::move(response));
       }});
}

}  // namespace patchbay
