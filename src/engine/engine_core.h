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
#include "engine/service_counters.h"
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
    uint32_t n_queue_max = 256;  ///< more than these are given up
    size_t adapter_bytes = size_t{1} << 30U;
    bool keep_prefixes = true;  ///< computed blocks serve later requests as well
    AdmissionRules admission{};
  };

  /// What the core tells the outside.
  struct Outside {
    std::function<void(const std::shared_ptr<EventQueue> &)> notify;  ///< on_events() is due
    std::function<void(const Request &)> left_queue;                  ///< it waits no longer
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
  /// Brings stats up to date, which nobody else has changed since, at the cost of what is new.
  void publish(EngineStats &stats);
  [[nodiscard]] EngineSnapshot snapshot() const;

 private:
  struct Part;

  // The stages of a step.
  void drop_ended();
  void admit();
  void go_on_following();
  [[nodiscard]] std::vector<Part> schedule() const;
  [[nodiscard]] StepPlan plan(std::span<const Part> parts) const;
  [[nodiscard]] Expected<std::vector<Part>> compute();
  void commit(const std::vector<Part> &parts);

  void look_at_residents();
  void look_at_prefixes();
  [[nodiscard]] bool admit_next(Clock::time_point now);
  [[nodiscard]] bool fits(const Job &job, const ContentView &known) const;
  void start(const std::shared_ptr<Job> &job, Clock::time_point now);
  void take_seats(const std::shared_ptr<Sequence> &sequence);
  void adopt(Sequence &sequence);
  void find_leader(Sequence &sequence) const;
  [[nodiscard]] bool may_adopt(const Job &job) const;
  [[nodiscard]] Expected<std::vector<AdapterSpan>> make_resident(Job &job);
  void preempt_last();

  void deal_outputs(const StepPlan &plan, std::span<const float> logits,
                    std::vector<Part> &parts) const;
  void take_outputs(const Part &part);
  void take_hidden(const Part &part);
  void take_logits(const Part &part);
  [[nodiscard]] std::vector<std::shared_ptr<Sequence>> fork_choices(
      const std::shared_ptr<Sequence> &first);
  void draw(Sequence &sequence, std::span<const float> logits);
  void end_choice(Sequence &sequence, StopReason reason);
  void end_job(const std::shared_ptr<Job> &job, std::optional<Error> error);
  void count_start(Job &job);
  void count_cached(Job &job, uint32_t n_tokens);
  void count_end(const Job &job, const std::optional<Error> &error);
  void fill_gauges(EngineStats &stats) const;
  void emit(const Job &job, Event event);

  void remove(Sequence &sequence);
  void unseat(Sequence &sequence);

  std::unique_ptr<Executor> executor_;
  Residency residency_;
  Limits limits_;
  Outside outside_;
  Roster roster_;
  size_t next_look_ = 0;  // whose prefix is looked up next, around the queue
  ServiceCounters services_;
  EngineStats counters_;  // the running sums of stats()
};

}  // namespace patchbay
