#include "server/metrics.h"

#include <algorithm>
#include <chrono>

namespace patchbay {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

HttpResponse metrics(Service &service, const Principal &principal) {
  const EngineStats stats = service.engine.stats();
  const std::vector<RegisteredAdapter> all = service.registry.list();
  std::vector<RegisteredAdapter> known;
  for (const auto &entry : all) {
    if (principal.is_admin || principal.may_wear(entry.name)) known.push_back(entry);
  }
  // Who sees less sees no less of when it changed.
  const LoraLists lists = lora_lists({stats, all});
  const double changed_at =
      service.lora_changes.note(lists.running + "|" + lists.waiting, unix_time());
  const MetricsView view{stats, known};
  MetricsText text;
  add_own_metrics(text, service, view);
  add_gateway_metrics(text, service, view, changed_at);
  add_llama_metrics(text, service, view);
  return {.body = text.take(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
}

}  // namespace

int64_t max_rank(const Adapter &adapter) {
  int64_t n_rank = 0;
  for (const auto &pair : adapter.pairs) n_rank = std::max(n_rank, pair.n_rank);
  return n_rank;
}

void add_metrics(Router &router, Service &service) {
  if (!service.has_metrics) return;
  (void)service.traffic.of("base");  // is there from the beginning
  router.add({.method = "GET",
              .path = "/metrics",
              .errors = ErrorShape::llama_server,
              .handler = answer_with([&service](const HttpRequest &, const RouteContext &context) {
                return metrics(service, context.principal);
              })});
}

}  // namespace patchbay
