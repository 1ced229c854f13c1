#include "server/exchange_log.h"

#include <cmath>

namespace patchbay {
namespace {

/// Paths and methods without a route are anybody's, and count together.
HttpCountKey count_key_of(const Exchange &exchange) {
  if (exchange.notes().route.empty()) return {"other", "none", exchange.status()};
  return {exchange.request().method, exchange.notes().route, exchange.status()};
}

}  // namespace

void note_exchange(Service &service, LogFormat format, const Exchange &exchange,
                   std::chrono::duration<double> took) {
  service.http_counts.add(count_key_of(exchange));
  const HttpRequest &request = exchange.request();
  const ExchangeNotes &notes = exchange.notes();
  Json fields{{"id", request.id},
              {"method", request.method},
              {"path", percent_encode(request.path)},
              {"status", exchange.status()},
              {"ms", std::round(took.count() * 1e4) / 10},
              {"bytes", exchange.n_bytes()}};
  if (!exchange.is_complete()) fields["complete"] = false;
  if (!notes.tenant.empty()) fields["tenant"] = notes.tenant;
  if (notes.n_tokens_prompt > 0) {
    fields["tokens_in"] = notes.n_tokens_prompt;
    fields["tokens_cached"] = notes.n_tokens_cached;
    fields["tokens_out"] = notes.n_tokens_out;
    if (!notes.finish_reason.empty()) fields["finish_reason"] = notes.finish_reason;
    if (!notes.adapters.empty()) fields["adapters"] = notes.adapters;
  }
  if (!notes.prompt.empty()) fields["prompt"] = notes.prompt;
  log_line(format, "request", fields);
}

}  // namespace patchbay
