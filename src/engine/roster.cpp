#include "engine/roster.h"

#include <algorithm>
#include <cassert>
#include <tuple>

namespace patchbay {
namespace {

bool goes_before(const Job &one, const Job &other) {
  const auto rank = [](const Job &job) {
    return std::tuple(-static_cast<int64_t>(job.request.priority), job.arrival);
  };
  return rank(one) < rank(other);
}

}  // namespace

Roster::Roster(uint32_t n_seats) {
  for (uint32_t i = 0; i < n_seats; ++i) free_.insert(static_cast<int32_t>(i));
}

void Roster::enqueue(std::shared_ptr<Job> job) {
  const auto place = std::ranges::upper_bound(
      queue_, job, [](const auto &one, const auto &other) { return goes_before(*one, *other); });
  queue_.insert(place, std::move(job));
}

Roster::Next Roster::next() const {
  const auto waiting =
      std::ranges::find_if(sequences_, [](const auto &sequence) { return !sequence->is_seated(); });
  const bool resume = waiting != sequences_.end() &&
                      (queue_.empty() || !goes_before(*queue_.front(), (*waiting)->job()));
  if (resume) return {.sequence = *waiting};
  return {.job = queue_.empty() ? nullptr : queue_.front()};
}

bool Roster::leave_queue(const std::shared_ptr<Job> &job) { return std::erase(queue_, job) > 0; }

uint32_t Roster::n_seated() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      sequences_, [](const auto &sequence) { return sequence->is_seated(); }));
}

void Roster::seat(const std::shared_ptr<Sequence> &sequence) {
  sequence->sit_down(take_seat(), 0);
  if (std::ranges::find(sequences_, sequence) == sequences_.end()) insert(sequence);
}

void Roster::seat_in_spare(const std::shared_ptr<Sequence> &sequence, uint32_t n_computed) {
  auto &spare = sequence->job().spare_seats;
  assert(!spare.empty());
  sequence->sit_down(spare.back(), n_computed);
  spare.pop_back();
  insert(sequence);
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
}

void Roster::remove(const Sequence &sequence) {
  assert(!sequence.is_seated());
  std::erase_if(sequences_, [&](const auto &other) { return other.get() == &sequence; });
}

void Roster::count(EngineStats &stats) const {
  stats.n_running = n_seated();
  stats.n_queued = static_cast<uint32_t>(queue_.size() + sequences_.size()) - stats.n_running;
  for (const auto &job : queue_) ++stats.tenants[job->request.tenant].n_queued;
  for (const auto &sequence : sequences_) {
    auto &tenant = stats.tenants[sequence->job().request.tenant];
    ++(sequence->is_seated() ? tenant.n_running : tenant.n_queued);
  }
}

int32_t Roster::take_seat() {
  assert(!free_.empty());
  const int32_t seat = *free_.begin();
  free_.erase(free_.begin());
  return seat;
}

void Roster::insert(std::shared_ptr<Sequence> sequence) {
  const auto place = std::ranges::upper_bound(
      sequences_, sequence,
      [](const auto &one, const auto &other) { return goes_before(one->job(), other->job()); });
  sequences_.insert(place, std::move(sequence));
}

}  // namespace patchbay
