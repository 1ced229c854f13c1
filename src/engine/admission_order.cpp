#include "engine/admission_order.h"

#include <algorithm>
#include <cassert>
#include <tuple>
#include <vector>

namespace patchbay {
namespace {

using Group = std::span<const Candidate *const>;

/// Takes those off the front of `rest` that agree with the first in this field.
Group take_group(Group &rest, const void *Candidate::*field) {
  const void *wanted = rest.front()->*field;
  const auto end =
      std::ranges::find_if(rest, [&](const Candidate *one) { return one->*field != wanted; });
  const auto n = static_cast<size_t>(end - rest.begin());
  const Group group = rest.first(n);
  rest = rest.subspan(n);
  return group;
}

/// Those of tenants that are near enough to the least served one, by tenant and member.
std::vector<const Candidate *> near_the_least(std::span<const Candidate> candidates, double slack) {
  const double least =
      std::ranges::min_element(candidates, {}, &Candidate::tenant_counter)->tenant_counter;
  std::vector<const Candidate *> near;
  for (const auto &one : candidates) {
    if ((one.tenant_counter - least) * one.tenant_weight <= slack) near.push_back(&one);
  }
  std::ranges::sort(near, [](const Candidate *one, const Candidate *other) {
    return std::tie(one->tenant, one->member) < std::tie(other->tenant, other->member);
  });
  return near;
}

double least_member_counter(Group of_tenant) {
  double least = of_tenant.front()->member_counter;
  for (const Candidate *one : of_tenant) least = std::min(least, one->member_counter);
  return least;
}

/// The best request seen so far.
class Choice {
 public:
  /// Looks at the requests of one member: all of them, unless one was passed over for too long.
  /// `ahead`: the member's counter over the least of its tenant's, since counters of members say
  /// nothing between tenants.
  void look_at(Group line, double ahead, double slack) {
    const bool in_turn =
        std::ranges::any_of(line, [&](const Candidate *one) { return one->passed_over >= slack; });
    const Candidate *first = *std::ranges::min_element(
        line,
        [](const Candidate *one, const Candidate *other) { return is_earlier(*one, *other); });
    for (const Candidate *one : line) {
      if (!in_turn || one == first) look_at(*one, ahead);
    }
  }

  [[nodiscard]] const Candidate *best() const { return best_; }

 private:
  using Rank =
      std::tuple<float, bool, double, double, std::chrono::steady_clock::time_point, uint64_t>;

  void look_at(const Candidate &one, double ahead) {
    const Rank rank(-one.cached_share, !one.is_resident, one.tenant_counter, ahead, one.due,
                    one.arrival);
    if (best_ != nullptr && rank_ <= rank) return;
    best_ = &one;
    rank_ = rank;
  }

  const Candidate *best_ = nullptr;
  Rank rank_;
};

}  // namespace

bool is_earlier(const Candidate &one, const Candidate &other) {
  return std::tie(one.due, one.arrival) < std::tie(other.due, other.arrival);
}

size_t choose_next(std::span<const Candidate> candidates, double slack) {
  assert(!candidates.empty());
  const auto near = near_the_least(candidates, slack);
  Choice choice;
  for (Group rest(near); !rest.empty();) {
    Group of_tenant = take_group(rest, &Candidate::tenant);
    const double least = least_member_counter(of_tenant);
    while (!of_tenant.empty()) {
      const Group line = take_group(of_tenant, &Candidate::member);
      const double ahead = line.front()->member_counter - least;
      if (ahead <= slack) choice.look_at(line, ahead, slack);
    }
  }
  // The first in line of the least member of the least tenant always is one of them.
  return static_cast<size_t>(choice.best() - candidates.data());
}

}  // namespace patchbay
