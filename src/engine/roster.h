#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/admission_order.h"
#include "engine/fair_share.h"
#include "engine/job.h"
#include "engine/sequence.h"

namespace patchbay {

/// See EngineOptions.
struct AdmissionRules {
  std::map<std::string, double> tenant_weights{};
  std::chrono::milliseconds aging{0};
};

/// Who waits and who has a seat. A seat is a sequence's name in the cache; there are as many as
/// answers may be in the making at once. Requests wait in the queue until they are admitted; a
/// sequence that had to give its seat up waits beside them.
///
/// Who is next: of the highest priority, to which waiting raises lower ones, first the sequences
/// that wait, then the request of choose_next() by shares. Served within a step: the higher
/// priority, then the earlier admission. Looks at no clock of its own. Engine thread.
class Roster {
 public:
  explicit Roster(uint32_t n_seats, AdmissionRules rules = {});

  void enqueue(std::shared_ptr<Job> job);

  /// Who is to be admitted next: a sequence that waits, or else a request of the queue.
  struct Next {
    std::shared_ptr<Sequence> sequence;
    std::shared_ptr<Job> job;
  };
  [[nodiscard]] Next next(Clock::time_point now) const;
  /// Takes a request out of the queue to seat it: it has had its turn.
  void admit(const std::shared_ptr<Job> &job, Clock::time_point now);
  /// Takes a request out of the queue; false when it is not there.
  bool leave_queue(const std::shared_ptr<Job> &job);
  /// Who is given up when the queue is too long: of the tenant with most requests in it, of those
  /// of its kind that are most, the last of the lowest priority; among equals the one served most.
  /// REQUIRES: somebody waits in it.
  [[nodiscard]] std::shared_ptr<Job> last_of_longest() const;
  /// Charges the request's share with so many tokens' cost, see token_cost.h; below 0: gives back.
  void charge(Job &job, double cost);
  /// A request has ended and is neither in the queue nor seated: it has a share no longer.
  void close(Job &job);

  [[nodiscard]] uint32_t n_free_seats() const { return static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] uint32_t n_seated() const;
  /// Requests, and sequences without a seat.
  [[nodiscard]] uint32_t n_waiting() const;

  /// Gives an admitted sequence its place, and a seat in which nothing is computed.
  void seat(const std::shared_ptr<Sequence> &sequence);
  /// The same in a seat that its request has kept, of which `n_computed` tokens are in the cache.
  void seat_in_spare(const std::shared_ptr<Sequence> &sequence, uint32_t n_computed);
  /// Keeps seats for choices that a request will have.
  void keep_spare_seats(Job &job, uint32_t n_seats);
  void free_spare_seats(Job &job);
  /// Frees a sequence's seat; it goes on waiting.
  void unseat(Sequence &sequence);
  /// An answer has ended. REQUIRES: it has no seat.
  void remove(const Sequence &sequence);

  /// Admitted sequences in the order in which they are served.
  [[nodiscard]] const std::vector<std::shared_ptr<Sequence>> &sequences() const {
    return sequences_;
  }
  /// In order of arrival.
  [[nodiscard]] const std::deque<std::shared_ptr<Job>> &queue() const { return queue_; }
  [[nodiscard]] const std::set<int32_t> &free_seats() const { return free_; }
  [[nodiscard]] const FairShare &share() const { return share_; }

 private:
  struct Field;

  [[nodiscard]] int64_t priority_of(const Job &job, Clock::time_point now) const;
  [[nodiscard]] int64_t highest_priority() const;
  [[nodiscard]] Candidate candidate_of(const Job &job) const;
  [[nodiscard]] Field field(Clock::time_point now) const;
  void note_share(const Job &job) const;
  [[nodiscard]] int32_t take_seat();
  void insert(std::shared_ptr<Sequence> sequence);

  AdmissionRules rules_;
  FairShare share_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::vector<std::shared_ptr<Sequence>> sequences_;
  std::set<int32_t> free_;
  uint64_t n_admitted_ = 0;
};

}  // namespace patchbay
