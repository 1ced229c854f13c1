#include "engine/engine_core.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <tuple>

#include "engine/step_schedule.h"

namespace patchbay {
namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

/// Who is served first: the higher priority, then the earlier arrival.
bool goes_before(const Job &one, const Job &other) {
  return std::tuple(-static_cast<int64_t>(one.request.priority), one.arrival) <
         std::tuple(-static_cast<int64_t>(other.request.priority), other.arrival);
}

std::optional<Error> reason_to_end(const Job &job, Clock::time_point now) {
  if (job.events->cancelled()) return Error{ErrorCode::cancelled, "the request was cancelled"};
  if (job.request.deadline && now >= *job.request.deadline)
    return Error{ErrorCode::deadline_exceeded, "the request's deadline has passed"};
  return std::nullopt;
}

Usage usage_of(const Job &job) {
  Usage usage = job.usage;
  const auto now = Clock::now();
  const bool was_admitted = job.admitted != Clock::time_point{};
  usage.n_tokens_prompt = static_cast<uint32_t>(job.request.prompt.size());
  usage.queue_ms = ms_between(job.submitted, was_admitted ? job.admitted : now);
  if (was_admitted) usage.prompt_ms = ms_between(job.admitted, job.forked ? job.prompt_done : now);
  if (job.forked) usage.decode_ms = ms_between(job.prompt_done, now);
  return usage;
}

bool all_finite(std::span<const float> logits) {
  return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

}  // namespace

/// What a step computes of one sequence, and the logits that came of it.
struct EngineCore::Part {
  std::shared_ptr<Sequence> sequence;
  uint32_t n_tokens = 0;
  std::map<int32_t, std::span<const float>> logits{};  ///< of the positions that want them
};

EngineCore::EngineCore(std::unique_ptr<Executor> executor, const Limits &limits, Outside outside)
    : executor_(std::move(executor)),
      residency_(*executor_, limits.adapter_bytes),
      limits_(limits),
      outside_(std::move(outside)) {
  for (uint32_t i = 0; i < limits_.n_seqs_max; ++i) free_seats_.insert(static_cast<int32_t>(i));
}

void EngineCore::enqueue(std::shared_ptr<Job> job) {
  const auto place = std::ranges::upper_bound(
      queue_, job, [](const auto &one, const auto &other) { return goes_before(*one, *other); });
  queue_.insert(place, std::move(job));
}

bool EngineCore::step() {
  drop_ended();
  admit();
  if (n_seated() == 0) return false;
  const auto start = Clock::now();
  const auto parts = compute();
  if (parts) commit(*parts);
  ++counters_.n_steps;
  counters_.step_ms = ms_between(start, Clock::now());
  assert(check_invariants(snapshot()).empty());
  return true;
}

void EngineCore::drop_ended() {
  const auto now = Clock::now();
  std::map<std::shared_ptr<Job>, Error> ended;
  const auto look_at = [&](const std::shared_ptr<Job> &job) {
    if (auto error = reason_to_end(*job, now)) ended.emplace(job, *error);
  };
  for (const auto &job : queue_) look_at(job);
  for (const auto &sequence : sequences_) look_at(sequence->shared_job());
  for (const auto &[job, error] : ended) end_job(job, error);
}

void EngineCore::admit() {
  while (admit_next()) {
  }
}

/// Whoever gave memory up goes before requests that arrived later, so that nobody is overtaken by
/// those who took it.
bool EngineCore::admit_next() {
  const auto waiting =
      std::ranges::find_if(sequences_, [](const auto &sequence) { return !sequence->is_seated(); });
  const bool resume = waiting != sequences_.end() &&
                      (queue_.empty() || !goes_before(*queue_.front(), (*waiting)->job()));
  if (resume) {
    if (!fits(1, (*waiting)->n_tokens())) return false;
    (*waiting)->sit_down(free_seat(), 0);
    return true;
  }
  if (queue_.empty()) return false;
  const Request &next = queue_.front()->request;
  if (!fits(next.n_choices, static_cast<uint32_t>(next.prompt.size()))) return false;
  const auto job = std::move(queue_.front());
  queue_.pop_front();
  outside_.left_queue();
  start(job);
  return true;
}

/// Whether `n_tokens` more can be computed without taking memory that others are about to need:
/// the rest of their prompts, and a block for each to grow into.
bool EngineCore::fits(uint32_t n_seats, uint32_t n_tokens) const {
  if (n_seats > free_seats_.size()) return false;
  if (n_seated() == 0) return true;
  uint64_t n_needed = uint64_t{n_tokens} + executor_->block_size() * uint64_t{n_seats};
  for (const auto &sequence : sequences_) {
    if (!sequence->is_seated()) continue;
    n_needed += sequence->n_tokens() - sequence->n_computed() + executor_->block_size();
  }
  return n_needed <= executor_->n_free_tokens();
}

void EngineCore::start(std::shared_ptr<Job> job) {
  auto spans = make_resident(*job);
  job->admitted = Clock::now();
  job->n_open = job->request.n_choices;
  if (!spans) {
    end_job(job, spans.error());
    return;
  }
  job->spans = *std::move(spans);
  auto sequence = std::make_shared<Sequence>(job, 0, executor_->model().tokenizer);
  sequence->sit_down(free_seat(), 0);
  while (job->spare_seats.size() + 1 < job->request.n_choices)
    job->spare_seats.push_back(free_seat());
  insert(std::move(sequence));
}

Expected<std::vector<AdapterSpan>> EngineCore::make_resident(Job &job) {
  std::vector<AdapterSpan> spans;
  try {
    for (const auto &[first, adapters] : job.request.spans) {
      std::vector<Worn> worn;
      for (const auto &[adapter, strength] : adapters) {
        if (strength != 0) worn.push_back({residency_.acquire(adapter, job.leases), strength});
      }
      spans.push_back({first, executor_->canonical(worn)});
    }
  } catch (const LoadError &error) {
    return fail(error.code(), error.what());
  }
  if (spans.empty()) spans.push_back({});
  return spans;
}

std::vector<EngineCore::Part> EngineCore::schedule() const {
  std::vector<Part> parts;
  std::vector<SeqProgress> progress;
  for (const auto &sequence : sequences_) {
    if (!sequence->is_seated()) continue;
    parts.push_back({.sequence = sequence});
    progress.push_back({sequence->n_tokens(), sequence->n_computed()});
  }
  const auto n_tokens = schedule_step(
      progress, {.n_ubatch = limits_.n_ubatch, .n_prefill_beside = limits_.n_prefill_beside});
  for (size_t i = 0; i < parts.size(); ++i) parts[i].n_tokens = n_tokens[i];
  std::erase_if(parts, [](const Part &part) { return part.n_tokens == 0; });
  return parts;
}

/// Plans and runs a step; the youngest give their memory up until it fits.
Expected<std::vector<EngineCore::Part>> EngineCore::compute() {
  while (true) {
    std::vector<Part> parts = schedule();
    std::vector<Chunk> chunks;
    for (const auto &part : parts) chunks.push_back(part.sequence->next_chunk(part.n_tokens));
    const StepPlan plan = plan_step(chunks);
    const auto logits = executor_->run(plan);
    if (logits) {
      counters_.n_tokens_computed += plan.rows.size();
      deal_logits(plan, *logits, parts);
      return parts;
    }
    if (logits.error().code != ErrorCode::context_overflow || n_seated() == 1) {
      // A step that fails ends the requests in it, and no other.
      for (const auto &part : parts) end_job(part.sequence->shared_job(), logits.error());
      return tl::unexpected(logits.error());
    }
    preempt_youngest();
  }
}

/// The logits came in the order of the plan's rows.
void EngineCore::deal_logits(const StepPlan &plan, std::span<const float> logits,
                             std::vector<Part> &parts) const {
  const size_t n_vocab = executor_->model().hparams().n_vocab;
  std::map<int32_t, Part *> part_of;
  for (auto &part : parts) part_of[part.sequence->seq_id()] = &part;
  for (const auto &row : plan.rows) {
    if (!row.wants_logits) continue;
    part_of[row.place.seq_id]->logits[row.place.pos] = logits.first(n_vocab);
    logits = logits.subspan(n_vocab);
  }
}

void EngineCore::preempt_youngest() {
  const auto seated = [](const auto &sequence) { return sequence->is_seated(); };
  const auto youngest = std::ranges::find_if(sequences_.rbegin(), sequences_.rend(), seated);
  stand_up(**youngest);
  ++(*youngest)->job().usage.n_preemptions;
  ++counters_.n_preemptions;
}

void EngineCore::commit(const std::vector<Part> &parts) {
  for (const auto &part : parts) part.sequence->computed(part.n_tokens);
  for (const auto &part : parts) {
    // Another choice of the same request may just have ended it.
    if (part.logits.empty() || !part.sequence->is_seated()) continue;
    const auto finite = [](const auto &row) { return all_finite(row.second); };
    if (!std::ranges::all_of(part.logits, finite)) {
      // The fault is this request's own: whoever computed beside it goes on.
      end_job(part.sequence->shared_job(),
              Error{ErrorCode::internal,
                    "a step gave logits that are not finite: the weights, or an adapter at its "
                    "strength, are too large"});
      continue;
    }
    take_logits(part);
  }
}

void EngineCore::take_logits(const Part &part) {
  Sequence &sequence = *part.sequence;
  Job &job = sequence.job();
  if (job.request.prompt_logits && !job.forked) {
    LogitsEvent event{.first = part.logits.begin()->first};
    for (const auto &[pos, row] : part.logits)
      event.logits.insert(event.logits.end(), row.begin(), row.end());
    emit(job, std::move(event));
  }
  if (sequence.n_computed() < sequence.n_tokens()) return;
  const auto last = part.logits.rbegin()->second;
  if (job.forked) {
    draw(sequence, last);
    return;
  }
  for (const auto &choice : fork_choices(part.sequence)) draw(*choice, last);
}

/// The prompt is computed: every choice gets a sequence that shares it. Returns all of them.
std::vector<std::shared_ptr<Sequence>> EngineCore::fork_choices(
    const std::shared_ptr<Sequence> &first) {
  Job &job = first->job();
  job.forked = true;
  job.prompt_done = Clock::now();
  std::vector<std::shared_ptr<Sequence>> choices{first};
  for (uint32_t i = 1; i < job.request.n_choices; ++i) {
    auto choice = std::make_shared<Sequence>(first->shared_job(), i, executor_->model().tokenizer);
    choice->sit_down(job.spare_seats.back(), first->n_computed());
    job.spare_seats.pop_back();
    executor_->fork(first->seq_id(), choice->seq_id());
    choices.push_back(choice);
  }
  for (size_t i = 1; i < choices.size(); ++i) insert(choices[i]);
  return choices;
}

void EngineCore::draw(Sequence &sequence, std::span<const float> logits) {
  Job &job = sequence.job();
  if (job.request.n_predict == 0) {
    end_choice(sequence, StopReason::length);
    return;
  }
  auto [event, end] = sequence.draw(logits, executor_->n_ctx());
  ++job.usage.n_tokens_out;
  ++counters_.n_tokens_out;
  emit(job, std::move(event));
  if (end) end_choice(sequence, *end);
}

void EngineCore::end_choice(Sequence &sequence, StopReason reason) {
  const auto job = sequence.shared_job();
  emit(*job, sequence.finish(reason));
  const bool is_last = --job->n_open == 0;
  remove(sequence);
  if (is_last) end_job(job, std::nullopt);
}

/// Gives everything of a request back and says how it ended. Nothing happens the second time.
void EngineCore::end_job(const std::shared_ptr<Job> &job, std::optional<Error> error) {
  if (job->ended) return;
  job->ended = true;
  if (std::erase(queue_, job) > 0) outside_.left_queue();
  const auto sequences = sequences_;
  for (const auto &sequence : sequences) {
    if (sequence->shared_job() == job) remove(*sequence);
  }
  free_seats_.insert(job->spare_seats.begin(), job->spare_seats.end());
  residency_.release(job->leases);
  count_end(error);
  emit(*job, RequestEnd{.usage = usage_of(*job), .error = std::move(error)});
}

void EngineCore::end_all(const Error &error) {
  while (!queue_.empty()) end_job(std::shared_ptr(queue_.front()), error);
  while (!sequences_.empty()) end_job(sequences_.front()->shared_job(), error);
}

void EngineCore::count_end(const std::optional<Error> &error) {
  if (!error) {
    ++counters_.n_requests_done;
  } else if (error->code == ErrorCode::cancelled) {
    ++counters_.n_requests_cancelled;
  } else {
    ++counters_.n_requests_failed;
  }
}

void EngineCore::emit(const Job &job, Event event) {
  if (job.events->push(std::move(event))) outside_.notify(job.events);
}

void EngineCore::insert(std::shared_ptr<Sequence> sequence) {
  const auto place = std::ranges::upper_bound(
      sequences_, sequence,
      [](const auto &one, const auto &other) { return goes_before(one->job(), other->job()); });
  sequences_.insert(place, std::move(sequence));
}

void EngineCore::remove(Sequence &sequence) {
  stand_up(sequence);
  std::erase_if(sequences_, [&](const auto &other) { return other.get() == &sequence; });
}

int32_t EngineCore::free_seat() {
  const int32_t seat = *free_seats_.begin();
  free_seats_.erase(free_seats_.begin());
  return seat;
}

void EngineCore::stand_up(Sequence &sequence) {
  if (!sequence.is_seated()) return;
  executor_->release(sequence.seq_id());
  free_seats_.insert(sequence.seq_id());
  sequence.stand_up();
}

uint32_t EngineCore::n_seated() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      sequences_, [](const auto &sequence) { return sequence->is_seated(); }));
}

EngineStats EngineCore::stats() const {
  EngineStats stats = counters_;
  stats.n_running = n_seated();
  stats.n_queued = static_cast<uint32_t>(queue_.size() + sequences_.size()) - stats.n_running;
  stats.n_kv_tokens = executor_->n_kv_tokens();
  stats.n_kv_tokens_used = stats.n_kv_tokens - executor_->n_free_tokens();
  stats.n_adapters = residency_.n_adapters();
  stats.adapter_bytes = executor_->pool_bytes();
  stats.n_graphs_built = executor_->n_graphs_built();
  for (const auto &job : queue_) ++stats.tenants[job->request.tenant].n_queued;
  for (const auto &sequence : sequences_) {
    auto &tenant = stats.tenants[sequence->job().request.tenant];
    ++(sequence->is_seated() ? tenant.n_running : tenant.n_queued);
  }
  return stats;
}

EngineSnapshot EngineCore::snapshot() const {
  EngineSnapshot snapshot{.n_seats = limits_.n_seqs_max, .n_ctx = executor_->n_ctx()};
  std::set<std::shared_ptr<Job>> jobs;
  for (const auto &sequence : sequences_) {
    jobs.insert(sequence->shared_job());
    if (!sequence->is_seated()) continue;
    snapshot.taken.push_back({.seq_id = sequence->seq_id(),
                              .n_tokens = sequence->n_tokens(),
                              .n_computed = sequence->n_computed(),
                              .n_cached = executor_->n_tokens(sequence->seq_id())});
  }
  for (const auto &job : jobs)
    snapshot.spare.insert(snapshot.spare.end(), job->spare_seats.begin(), job->spare_seats.end());
  snapshot.free.assign(free_seats_.begin(), free_seats_.end());
  for (const auto &seats : {snapshot.spare, snapshot.free}) {
    for (const int32_t seat : seats)
      snapshot.n_cached_unseated.push_back(executor_->n_tokens(seat));
  }
  return snapshot;
}

}  // namespace patchbay
