#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "engine/job.h"
#include "engine/sequence.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// Who waits and who has a seat. A seat is a sequence's name in the cache; there are as many as
/// answers may be in the making at once. Requests wait in the queue until they are admitted; a
/// sequence that had to give its seat up waits beside them. Served first: the higher priority, then
/// the earlier arrival. Engine thread.
class Roster {
 public:
  explicit Roster(uint32_t n_seats);

  void enqueue(std::shared_ptr<Job> job);

  /// Who is to be admitted next: a sequence that waits, or else the queue's first request. Those
  /// who gave memory up go before requests that arrived later.
  struct Next {
    std::shared_ptr<Sequence> sequence;
    std::shared_ptr<Job> job;
  };
  [[nodiscard]] Next next() const;
  /// Takes a request out of the queue; false when it is not there.
  bool leave_queue(const std::shared_ptr<Job> &job);

  [[nodiscard]] uint32_t n_free_seats() const { return static_cast<uint32_t>(free_.size()); }
  [[nodiscard]] uint32_t n_seated() const;

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
  [[nodiscard]] const std::deque<std::shared_ptr<Job>> &queue() const { return queue_; }
  [[nodiscard]] const std::set<int32_t> &free_seats() const { return free_; }

  /// Fills the counts of requests and tenants.
  void count(EngineStats &stats) const;

 private:
  [[nodiscard]] int32_t take_seat();
  void insert(std::shared_ptr<Sequence> sequence);

  std::deque<std::shared_ptr<Job>> queue_;
  std::vector<std::shared_ptr<Sequence>> sequences_;
  std::set<int32_t> free_;
};

}  // namespace patchbay
