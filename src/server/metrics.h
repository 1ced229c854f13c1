#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "lora/adapter_registry.h"
#include "server/auth.h"
#include "server/metrics_text.h"
#include "server/router.h"
#include "server/service.h"

namespace patchbay {

/// What a scrape is made of, taken once.
struct MetricsView {
  const EngineStats &stats;
  const std::vector<RegisteredAdapter> &adapters;  ///< that the asking one may know of
};

/// Largest rank among its pairs.
[[nodiscard]] int64_t max_rank(const Adapter &adapter);

/// Names of adapters that steps can read, and of those that requests wait for: comma lists.
struct LoraLists {
  std::string running;
  std::string waiting;
};
[[nodiscard]] LoraLists lora_lists(const MetricsView &view);

// The families, one file each.
void add_own_metrics(MetricsText &text, const Service &service, const MetricsView &view);
/// What gateways that know vLLM read (Kubernetes' Gateway API inference extension, llm-d).
/// `changed_at`: Unix time of the last change to who is resident or waited for.
void add_gateway_metrics(MetricsText &text, const Service &service, const MetricsView &view,
                         double changed_at);
void add_llama_metrics(MetricsText &text, const Service &service, const MetricsView &view);

/// Adapters that steps can read at a time without one leaving: as many as the budget holds of the
/// size that the resident ones have, and at least one for every answer in the making.
[[nodiscard]] uint32_t adapter_capacity(const EngineStats &stats,
                                        const std::vector<RegisteredAdapter> &adapters,
                                        const Service &service);

/// GET /metrics. `service` outlives the router.
void add_metrics(Router &router, Service &service);

}  // namespace patchbay
