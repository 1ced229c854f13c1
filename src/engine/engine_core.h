#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine_invariants.h"
#include "engine/executor.h"
#include "engine/job.h"
#include "engine/residency.h"
#include "engine/roster.h"
#include "engine/sequence.h"
#include "patchbay/engine.hpp"

namespace patchbay {

/// The engine without its thread: requests in, steps out. A step goes
/// admit -> plan -> reserve -> build -> compute -> sample -> commit; the executor does the three in
/// the middle, and nothing is visible before the commit. One thread.
class EngineCore {
 public:
  struct Limits {
    uint32_t n_ctx = 4096;  ///< tokens of one sequence
    uint32_t n_ubatch = 256;
    uint32_t n_prefill_beside = 128;
    uint32_t n_seqs_max = 64;
    size_t adapter_bytes = size_t{1} << 30U;
    bool keep_prefixes = true;  ///< computed blocks serve later requests as well
  };

  /// What the core tells the outside.
  struct Outside {
    std::function<void(const std::shared_ptr<EventQueue> &)> notify;  ///< on_events() is due
    std::function<void()> left_queue;                                 ///< a request waits no longer
  };

  EngineCore(std::unique_ptr<Executor> executor, const Limits &limits, Outside outside);

  /// Takes a checked request into the queue.
  void enqueue(std::shared_ptr<Job> job);

  /// Computes one step. False: there was nothing to do.
  bool step();

  /// Ends every request with this error.
  void end_all(const Error &error);

  /// For what is done between two steps.
  [[nodiscard]] Executor &executor() { return *executor_; }

  [[nodiscard]] EngineStats stats() const;
  [[nodiscard]] EngineSnapshot snapshot() const;

 private:
  struct Part;

  // The stages of a step.
  void drop_ended();
  void admit();
  void go_on_following();
  [[nodiscard]] std::vector<Part> schedule() const;
  [[nodiscard]] Expected<std::vector<Part>> compute();
  void commit(const std::vector<Part> &parts);

  [[nodiscard]] bool admit_next();
  [[nodiscard]] bool fits(const Job &job, const ContentView &known) const;
  void start(const std::shared_ptr<Job> &job);
  void take_seats(const std::shared_ptr<Sequence> &sequence);
  void adopt(Sequence &sequence);
  void find_leader(Sequence &sequence) const;
  [[nodiscard]] bool may_adopt(const Job &job) const;
  [[nodiscard]] Expected<std::vector<AdapterSpan>> make_resident(Job &job);
  void preempt_youngest();

  void deal_logits(const StepPlan &plan, std::span<const float> logits,
                   std::vector<Part> &parts) const;
  void take_logits(const Part &part);
  [[nodiscard]] std::vector<std::shared_ptr<Sequence>> fork_choices(
      const std::shared_ptr<Sequence> &first);
  void draw(Sequence &sequence, std::span<const float> logits);
  void end_choice(Sequence &sequence, StopReason reason);
  void end_job(const std::shared_ptr<Job> &job, std::optional<Error> error);
  void count_end(const std::optional<Error> &error);
  void emit(const Job &job, Event event);

  void remove(Sequence &sequence);
  void unseat(Sequence &sequence);

  std::unique_ptr<Executor> executor_;
  Residency residency_;
  Limits limits_;
  Outside outside_;
  Roster roster_;
  EngineStats counters_;  // the running sums of stats()
};

}  // namespace patchbay
