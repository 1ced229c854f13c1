#include "engine/roster.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <tuple>

#include "engine/token_cost.h"

namespace patchbay {
namespace {

bool is_served_before(const Job &one, const Job &other) {
  const auto rank = [](const Job &job) { return std::tuple(-job.place, job.admission); };
  return rank(one) < rank(other);
}

}  // namespace

/// The requests that may be next, and what decides between them, in the same order.
struct Roster::Field {
  std::vector<const std::shared_ptr<Job> *> jobs;
  std::vector<Candidate> candidates;
};

Roster::Roster(uint32_t n_seats, AdmissionRules rules)
    : rules_(std::move(rules)), share_(rules_.tenant_weights) {
  for (uint32_t i = 0; i < n_seats; ++i) free_.insert(static_cast<int32_t>(i));
}

void Roster::enqueue(std::shared_ptr<Job> job) {
  job->share = &share_.open(job->request.tenant, adapter_key_of(job->request));
  job->cost_factor = adapter_cost_factor(job->request);
  job->services.count([](ServiceStats &stats) { ++stats.n_queued; });
  note_share(*job);
  queue_.push_back(std::move(job));
}

/// With what it has gained by waiting.
int64_t Roster::priority_of(const Job &job, Clock::time_point now) const {
  const bool ages = rules_.aging.count() > 0 && now > job.submitted;
  return int64_t{job.request.priority} + (ages ? (now - job.submitted) / rules_.aging : 0);
}

/// Of those that wait, without what they have gained: more than this counts for nothing, or the
/// long queue of one tenant would go before what others ask for just now.
int64_t Roster::highest_priority() const {
  int64_t highest = std::numeric_limits<int64_t>::min();
  const auto look_at = [&](const Job &job) {
    highest = std::max(highest, int64_t{job.request.priority});
  };
  for (const auto &job : queue_) look_at(*job);
  for (const auto &sequence : sequences_) {
    if (!sequence->is_seated()) look_at(sequence->job());
  }
  return highest;
}

Candidate Roster::candidate_of(const Job &job) const {
  const FairShare::Member &member = *job.share;
  auto due = job.request.deadline.value_or(Clock::time_point::max());
  // Who has waited that long is due as well: later ones with a deadline would else be first for
  // ever.
  if (rules_.aging.count() > 0) due = std::min(due, job.submitted + rules_.aging);
  const auto n_prompt = static_cast<float>(job.request.prompt.size());
  return {.tenant = member.tenant,
          .member = &member,
          .tenant_counter = share_.counter_of(*member.tenant),
          .tenant_weight = member.tenant->counter.weight,
          .member_counter = FairShare::counter_of(member),
          .cached_share = static_cast<float>(job.n_cached_estimate) / n_prompt,
          .is_resident = job.adapters_resident,
          .passed_over = job.passed_over_at ? member.charged - *job.passed_over_at : 0,
          .due = due,
          .arrival = job.arrival};
}

Roster::Field Roster::field(Clock::time_point now) const {
  const int64_t wanted = highest_priority();
  Field field;
  for (const auto &job : queue_) {
    if (priority_of(*job, now) < wanted) continue;
    field.jobs.push_back(&job);
    field.candidates.push_back(candidate_of(*job));
  }
  return field;
}

Roster::Next Roster::next(Clock::time_point now) const {
  const int64_t wanted = highest_priority();
  const auto waiting = std::ranges::find_if(sequences_, [&](const auto &sequence) {
    return !sequence->is_seated() && priority_of(sequence->job(), now) >= wanted;
  });
  if (waiting != sequences_.end()) return {.sequence = *waiting};
  const Field field = this->field(now);
  if (field.jobs.empty()) return {};
  return {.job = *field.jobs[choose_next(field.candidates)]};
}

void Roster::admit(const std::shared_ptr<Job> &job, Clock::time_point now) {
  const Candidate chosen = candidate_of(*job);
  double least = chosen.tenant_counter;
  double least_member = chosen.member_counter;
  const Field field = this->field(now);
  for (size_t i = 0; i < field.jobs.size(); ++i) {
    const Candidate &other = field.candidates[i];
    least = std::min(least, other.tenant_counter);
    if (other.tenant == chosen.tenant) least_member = std::min(least_member, other.member_counter);
    auto &passed_over_at = (*field.jobs[i])->passed_over_at;
    if (other.member == chosen.member && is_earlier(other, chosen) && !passed_over_at)
      passed_over_at = job->share->charged;
  }
  job->place = std::min(priority_of(*job, now), highest_priority());
  job->admission = ++n_admitted_;
  share_.admitted(*job->share->tenant, least, least_member);
  leave_queue(job);
}

bool Roster::leave_queue(const std::shared_ptr<Job> &job) {
  if (std::erase(queue_, job) == 0) return false;
  job->services.count([](ServiceStats &stats) { --stats.n_queued; });
  return true;
}

std::shared_ptr<Job> Roster::last_of_longest() const {
  assert(!queue_.empty());
  std::map<const void *, size_t> n_of;
  for (const auto &job : queue_) {
    ++n_of[job->share->tenant];
    ++n_of[job->share];
  }
  return *std::ranges::max_element(queue_, {}, [&](const auto &job) {
    const FairShare::Member *member = job->share;
    const FairShare::Tenant *tenant = member->tenant;
    return std::tuple(n_of.at(tenant), share_.counter_of(*tenant), tenant, n_of.at(member),
                      FairShare::counter_of(*member), member, -int64_t{job->request.priority},
                      job->arrival);
  });
}

void Roster::charge(Job &job, double cost) {
  cost *= job.cost_factor;
  share_.charge(*job.share, cost);
  job.services.count([&](ServiceStats &stats) { stats.cost += cost; });
  note_share(job);
}

void Roster::note_share(const Job &job) const {
  if (job.services.tenant == nullptr) return;
  TenantStats &stats = job.services.tenant->stats;
  stats.weight = job.share->tenant->counter.weight;
  stats.virtual_counter = share_.counter_of(*job.share->tenant);
}

void Roster::close(Job &job) {
  if (job.share != nullptr) share_.close(*job.share);
  job.share = nullptr;
}

uint32_t Roster::n_seated() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      sequences_, [](const auto &sequence) { return sequence->is_seated(); }));
}

uint32_t Roster::n_waiting() const {
  return static_cast<uint32_t>(queue_.size() + sequences_.size()) - n_seated();
}

void Roster::seat(const std::shared_ptr<Sequence> &sequence) {
  sequence->sit_down(take_seat(), 0);
  const bool has_waited = std::ranges::find(sequences_, sequence) != sequences_.end();
  if (!has_waited) insert(sequence);
  sequence->job().services.count([&](ServiceStats &stats) {
    ++stats.n_running;
    if (has_waited) --stats.n_queued;
  });
}

void Roster::seat_in_spare(const std::shared_ptr<Sequence> &sequence, uint32_t n_computed) {
  auto &spare = sequence->job().spare_seats;
  assert(!spare.empty());
  sequence->sit_down(spare.back(), n_computed);
  spare.pop_back();
  insert(sequence);
  sequence->job().services.count([](ServiceStats &stats) { ++stats.n_running; });
}

void Roster::keep_spare_seats(Job &job, uint32_t n_seats) {
  for (uint32_t i = 0; i < n_seats; ++i) job.spare_seats.push_back(take_seat());
}

void Roster::free_spare_seats(Job &job) {
  free_.insert(job.spare_seats.begin(), job.spare_seats.end());
  job.spare_seats.clear();
}

void Roster::unseat(Sequence &sequence) {
  free_.insert(sequence.seq_id());
  sequence.stand_up();
  sequence.job().services.count([](ServiceStats &stats) {
    --stats.n_running;
    ++stats.n_queued;
  });
}

void Roster::remove(const Sequence &sequence) {
  assert(!sequence.is_seated());
  const auto place = std::ranges::find(sequences_, &sequence, &std::shared_ptr<Sequence>::get);
  if (place == sequences_.end()) return;
  sequence.job().services.count([](ServiceStats &stats) { --stats.n_queued; });
  sequences_.erase(place);
}

int32_t Roster::take_seat() {
  assert(!free_.empty());
  const int32_t seat = *free_.begin();
  free_.erase(free_.begin());
  return seat;
}

void Roster::insert(std::shared_ptr<Sequence> sequence) {
  const auto place =
      std::ranges::upper_bound(sequences_, sequence, [](const auto &one, const auto &other) {
        return is_served_before(one->job(), other->job());
      });
  sequences_.insert(place, std::move(sequence));
}

}  // namespace patchbay
