#include "engine/fair_share.h"

#include <algorithm>
#include <cassert>

namespace patchbay {
namespace {

/// Beyond it floors go back to 0, so that adding a single token's cost still changes a counter.
constexpr double k_most_floor = 1e9;

double lifted(const VirtualCounter &counter, double floor) {
  return std::max(counter.value, floor);
}

void charge(VirtualCounter &counter, double floor, double cost) {
  counter.value = lifted(counter, floor) + cost / counter.weight;
}

/// Forgets who is idle: all that are not above the floor, and of the others the lowest beyond
/// `n_most`.
template <class Entries>
void forget_idle(Entries &entries, double floor, size_t n_most) {
  std::erase_if(entries, [&](const auto &entry) {
    return entry.second.counter.n_open == 0 && entry.second.counter.value <= floor;
  });
  const auto is_idle = [](const auto &entry) { return entry.second.counter.n_open == 0; };
  auto n_idle = static_cast<size_t>(std::ranges::count_if(entries, is_idle));
  for (; n_idle > n_most; --n_idle) {
    entries.erase(std::ranges::min_element(entries, {}, [&](const auto &entry) {
      return std::pair(!is_idle(entry), entry.second.counter.value);
    }));
  }
}

/// Everyone keeps its distance to the floor.
template <class Entries>
void lower(Entries &entries, double &floor) {
  for (auto &[name, entry] : entries) entry.counter.value = lifted(entry.counter, floor) - floor;
  floor = 0;
}

}  // namespace

FairShare::Member &FairShare::open(const std::string &tenant_name, const AdapterKey &key) {
  if (!tenants_.contains(tenant_name)) {
    forget_idle(tenants_, floor_, k_most_idle);
    const auto weight = weights_.find(tenant_name);
    if (weight != weights_.end()) tenants_[tenant_name].counter.weight = weight->second;
  }
  Tenant &tenant = tenants_[tenant_name];
  if (!tenant.members.contains(key)) forget_idle(tenant.members, tenant.floor, k_most_idle);
  Member &member = tenant.members[key];
  member.tenant = &tenant;
  ++member.counter.n_open;
  ++tenant.counter.n_open;
  ++n_open_;
  return member;
}

void FairShare::close(Member &member) {
  assert(member.counter.n_open > 0);
  --member.counter.n_open;
  --member.tenant->counter.n_open;
  if (--n_open_ > 0) return;
  tenants_.clear();
  floor_ = 0;
}

void FairShare::charge(Member &member, double cost) {
  member.charged += cost;
  patchbay::charge(member.counter, member.tenant->floor, cost);
  patchbay::charge(member.tenant->counter, floor_, cost);
}

double FairShare::counter_of(const Tenant &tenant) const { return lifted(tenant.counter, floor_); }

double FairShare::counter_of(const Member &member) {
  return lifted(member.counter, member.tenant->floor);
}

void FairShare::admitted(Tenant &tenant, double least, double least_member) {
  floor_ = std::max(floor_, least);
  tenant.floor = std::max(tenant.floor, least_member);
  if (floor_ > k_most_floor) lower(tenants_, floor_);
  if (tenant.floor > k_most_floor) lower(tenant.members, tenant.floor);
}

}  // namespace patchbay
