#include "engine/admission_order.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <tuple>

namespace patchbay {
namespace {

constexpr double k_none = std::numeric_limits<double>::infinity();

/// What a comparison needs to know of all candidates.
class Field {
 public:
  Field(std::span<const Candidate> candidates, double slack) : slack_(slack) {
    for (const auto &one : candidates) {
      least_tenant_ = std::min(least_tenant_, one.tenant_counter);
      auto &least_member = least_member_.emplace(one.tenant, k_none).first->second;
      least_member = std::min(least_member, one.member_counter);
      Line &line = lines_.emplace(one.member, Line{.first = &one}).first->second;
      if (is_earlier(one, *line.first)) line.first = &one;
      line.passed_over = std::max(line.passed_over, one.passed_over);
    }
  }

  /// Whether taking this one first delays nobody beyond the slack.
  [[nodiscard]] bool may_be_next(const Candidate &one) const {
    if ((one.tenant_counter - least_tenant_) * one.tenant_weight > slack_) return false;
    if (one.member_counter - least_member_.at(one.tenant) > slack_) return false;
    const Line &line = lines_.at(one.member);
    return line.first == &one || line.passed_over < slack_;
  }

  /// The least is next.
  [[nodiscard]] auto rank_of(const Candidate &one) const {
    // Members of different tenants compare by how far they are ahead at home.
    const double ahead = one.member_counter - least_member_.at(one.tenant);
    return std::tuple(-one.cached_share, !one.is_resident, one.tenant_counter, ahead, one.due,
                      one.arrival);
  }

 private:
  /// The requests of one member.
  struct Line {
    const Candidate *first = nullptr;
    double passed_over = 0;  ///< the most of any of them
  };

  double slack_;
  double least_tenant_ = k_none;
  std::map<const void *, double> least_member_;  // by tenant
  std::map<const void *, Line> lines_;
};

}  // namespace

bool is_earlier(const Candidate &one, const Candidate &other) {
  return std::tie(one.due, one.arrival) < std::tie(other.due, other.arrival);
}

size_t choose_next(std::span<const Candidate> candidates, double slack) {
  assert(!candidates.empty());
  const Field field(candidates, slack);
  const Candidate *best = nullptr;
  for (const auto &one : candidates) {
    if (!field.may_be_next(one)) continue;
    if (best == nullptr || field.rank_of(one) < field.rank_of(*best)) best = &one;
  }
  // The first in line of the least member of the least tenant always may be.
  return static_cast<size_t>(best - candidates.data());
}

}  // namespace patchbay
