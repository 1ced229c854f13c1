#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/worn_adapters.h"

namespace patchbay {

/// What one participant was charged, over its weight. Compared among its like: the least is next.
struct VirtualCounter {
  double value = 0;
  double weight = 1;
  uint32_t n_open = 0;  ///< requests that wait or run
};

/// Who has been served how much: a virtual counter for every tenant, and within a tenant for every
/// set of adapters that its requests wear. Virtual token counters as of Sheng et al., "Fairness in
/// Serving Large Language Models" (arXiv 2401.00588), in two levels.
///
/// Each level has a floor: the least counter among those that were compared at the last admission.
/// No counter counts for less, so nobody saves credit up by asking for nothing, nor owes anything
/// once the others have caught up. When nobody waits or runs all start anew.
///
/// Memory: who neither waits nor runs is remembered while its counter is above the floor, of the
/// tenants and of each tenant's adapter sets k_most_idle at most. No clock, no thread of its own.
class FairShare {
 public:
  static constexpr size_t k_most_idle = 1024;

  struct Tenant;
  /// The requests of a tenant that wear the same; stays where it is while one of them is open.
  struct Member {
    Tenant *tenant = nullptr;
    VirtualCounter counter{};
    double charged = 0;  ///< all of it: neither weighted nor lifted
  };
  struct Tenant {
    VirtualCounter counter{};
    std::map<AdapterKey, Member> members{};
    double floor = 0;  ///< of its members
  };

  /// `weights`: shares of tenants by name, above 0; who is not named has 1.
  explicit FairShare(std::map<std::string, double> weights = {}) : weights_(std::move(weights)) {}

  // Members refer to tenants, and requests to members.
  FairShare(const FairShare &) = delete;
  FairShare &operator=(const FairShare &) = delete;

  /// A request begins to wait. Closed when it has ended.
  [[nodiscard]] Member &open(const std::string &tenant, const AdapterKey &key);
  /// `member` may be gone afterwards.
  void close(Member &member);

  /// Below 0: gives back what was charged before.
  void charge(Member &member, double cost);

  /// What counts in a comparison.
  [[nodiscard]] double counter_of(const Tenant &tenant) const;
  [[nodiscard]] static double counter_of(const Member &member);

  /// One of the tenant's requests is admitted; `least` and `least_member` are the least counters of
  /// the tenants, and of the tenant's members, that it was chosen from.
  void admitted(Tenant &tenant, double least, double least_member);

  [[nodiscard]] size_t n_tenants() const { return tenants_.size(); }

 private:
  std::map<std::string, double> weights_;
  std::map<std::string, Tenant> tenants_;
  double floor_ = 0;
  uint64_t n_open_ = 0;
};

}  // namespace patchbay
