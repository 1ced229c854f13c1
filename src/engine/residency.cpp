#include "engine/residency.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "engine/service_counters.h"

namespace patchbay {

int32_t Residency::acquire(const std::shared_ptr<const Adapter> &adapter,
                           std::shared_ptr<const PackedAdapter> packed,
                           std::vector<int32_t> &leases) {
  const auto begin = std::chrono::steady_clock::now();
  const int32_t i_adapter = executor_.add_adapter(adapter, std::move(packed));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  Users &users = users_[i_adapter];
  if (users.stats_key.empty()) note_loaded(users, *adapter, took.count());
  ++users.n_leases;
  users.last_used = ++n_uses_;
  leases.push_back(i_adapter);
  shrink();
  return i_adapter;
}

void Residency::release(std::vector<int32_t> &leases) {
  for (const int32_t i_adapter : leases) --users_.at(i_adapter).n_leases;
  leases.clear();
  shrink();
}

void Residency::note_loaded(Users &users, const Adapter &adapter, double load_ms) {
  users.stats_key = stats_key_of(adapter);
  stats_.resident.insert(users.stats_key);
  stats_.load_ms += load_ms;
  ++stats_.n_loaded;
}

void Residency::publish(ResidencyStats &stats) const {
  const bool is_new = stats.n_loaded != stats_.n_loaded || stats.n_evicted != stats_.n_evicted;
  if (is_new) stats = stats_;
}

void Residency::shrink() {
  while (executor_.pool_bytes() > budget_bytes_) {
    // Those with leases come last, whenever they were used.
    const auto oldest = std::ranges::min_element(users_, {}, [](const auto &entry) {
      return std::tuple(entry.second.n_leases > 0, entry.second.last_used);
    });
    if (oldest == users_.end() || oldest->second.n_leases > 0) return;
    executor_.remove_adapter(oldest->first);
    stats_.resident.erase(oldest->second.stats_key);
    ++stats_.n_evicted;
    users_.erase(oldest);
  }
}

}  // namespace patchbay
