#include "engine/residency.h"

#include <algorithm>
#include <tuple>

namespace patchbay {

int32_t Residency::acquire(const std::shared_ptr<const Adapter> &adapter,
                           std::shared_ptr<const PackedAdapter> packed,
                           std::vector<int32_t> &leases) {
  const int32_t i_adapter = executor_.add_adapter(adapter, std::move(packed));
  Users &users = users_[i_adapter];
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

void Residency::shrink() {
  while (executor_.pool_bytes() > budget_bytes_) {
    // Those with leases come last, whenever they were used.
    const auto oldest = std::ranges::min_element(users_, {}, [](const auto &entry) {
      return std::tuple(entry.second.n_leases > 0, entry.second.last_used);
    });
    if (oldest == users_.end() || oldest->second.n_leases > 0) return;
    executor_.remove_adapter(oldest->first);
    users_.erase(oldest);
  }
}

}  // namespace patchbay
