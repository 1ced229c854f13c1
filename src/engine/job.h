#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/event_queue.h"
#include "engine/fair_share.h"
#include "engine/pooler.h"
#include "engine/service_counters.h"
#include "engine/spans.h"
#include "grammar/token_masks.h"
#include "kv/prefix_content.h"
#include "lora/packed_adapter.h"
#include "patchbay/request.hpp"

namespace patchbay {

using Clock = std::chrono::steady_clock;

/// A request on its way through the engine: what was asked, and what all its answers share. Engine
/// thread, once submitted.
struct Job {
  Request request;
  std::shared_ptr<EventQueue> events;
  Clock::time_point submitted = Clock::now();
  uint64_t arrival = 0;  ///< order of submission
  /// By adapter of the request, where the caller has packed it already; goes on admission.
  std::map<const Adapter *, std::shared_ptr<const PackedAdapter>> packed;

  /// What the answers must be of; null: anything. Shared with other requests of the same grammar.
  std::shared_ptr<TokenMasks> masks;

  std::vector<WornFrom> worn;  ///< what keys and values depend on, span by span
  // While it is in the engine.
  FairShare::Member *share = nullptr;  ///< whom its cost is charged to
  double cost_factor = 1;              ///< see adapter_cost_factor()
  ServiceTicket services;              ///< where what is done for it is counted
  uint32_t n_cached_estimate = 0;      ///< prompt tokens that the prefix cache holds at the moment
  bool adapters_resident = false;      ///< at the moment
  std::optional<double>
      passed_over_at;  ///< share->charged when a later one of it was admitted first

  // From admission on.
  Clock::time_point admitted;
  int64_t place = 0;                 ///< the priority it was admitted at
  uint64_t admission = 0;            ///< order of admission
  Clock::time_point prompt_done;     ///< when the prompt's last logits were there
  std::vector<AdapterSpan> spans;    ///< of resident adapters
  std::vector<int32_t> leases;       ///< adapters that must stay resident, see Residency
  bool forked = false;               ///< every choice has its own sequence
  std::vector<int32_t> spare_seats;  ///< kept for the choices that are still to come
  std::unique_ptr<Pooler> pooler;    ///< of an embedding
  int32_t n_logits_sent = 0;         ///< prompt tokens whose LogitsEvents are out
  uint32_t n_open = 0;               ///< choices that have not ended
  Usage usage;
  bool ended = false;  ///< its RequestEnd was sent
};

}  // namespace patchbay
