#include "engine/engine_core.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <map>
#include <set>

#include "engine/step_schedule.h"
#include "engine/step_sets.h"
#include "engine/step_times.h"
#include "engine/token_cost.h"

namespace patchbay {
namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
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

/// What a sequence of the request needs to go on.
uint32_t n_seats_of(const Job &job) { return job.forked ? 1 : job.request.n_choices; }

/// By the bits, and without an early end, so that the compiler can look at many at once: this runs
/// over the vocabulary for every token.
bool all_finite(std::span<const float> logits) {
  constexpr uint32_t k_infinity = 0x7F800000;
  uint32_t most = 0;
  for (const float logit : logits)
    most = std::max(most, std::bit_cast<uint32_t>(logit) << 1U >> 1U);
  return most < k_infinity;
}

}  // namespace

/// What a step computes of one sequence, and what came of it.
struct EngineCore::Part {
  std::shared_ptr<Sequence> sequence;
  uint32_t n_tokens = 0;
  // Of the positions that want them.
  std::map<int32_t, std::span<const float>> logits{};
  std::map<int32_t, std::span<const float>> hidden{};
};

EngineCore::EngineCore(std::unique_ptr<Executor> executor, const Limits &limits, Outside outside)
    : executor_(std::move(executor)),
      residency_(*executor_, limits.adapter_bytes),
      limits_(limits),
      outside_(std::move(outside)),
      roster_(limits.n_seqs_max, limits.admission) {}

void EngineCore::enqueue(std::shared_ptr<Job> job) {
  for (const auto &[first, adapters] : job->request.spans)
    job->worn.push_back({static_cast<uint32_t>(first), executor_->kv_digest(adapters)});
  job->services = services_.open(job->request);
  roster_.enqueue(std::move(job));
  if (roster_.queue().size() <= limits_.n_queue_max) return;
  end_job(roster_.last_of_longest(),
          Error{ErrorCode::queue_full,
                "the queue is full and others have fewer requests in it: try "
                "again later"});
}

bool EngineCore::step() {
  const auto begin = Clock::now();
  drop_ended();
  admit();
  go_on_following();
  if (roster_.n_seated() == 0) {
    assert(roster_.queue().empty() && roster_.sequences().empty());
    return false;
  }
  counters_.n_answers_in_steps += roster_.n_seated();
  const auto admitted = Clock::now();
  const auto parts = compute();
  const auto computed = Clock::now();
  if (parts) commit(*parts);
  const auto end = Clock::now();
  ++counters_.n_steps;
  counters_.step_ms = ms_between(admitted, end);
  counters_.step_times.admit_ms += ms_between(begin, admitted);
  counters_.step_times.sample_ms += ms_between(computed, end);
  count_step(counters_.step_times, counters_.step_ms);
  assert(check_invariants(snapshot()).empty());
  return true;
}

void EngineCore::drop_ended() {
  const auto now = Clock::now();
  std::map<std::shared_ptr<Job>, Error> ended;
  const auto look_at = [&](const std::shared_ptr<Job> &job) {
    if (auto error = reason_to_end(*job, now)) ended.emplace(job, *error);
  };
  for (const auto &job : roster_.queue()) look_at(job);
  for (const auto &sequence : roster_.sequences()) look_at(sequence->shared_job());
  for (const auto &[job, error] : ended) end_job(job, error);
}

void EngineCore::admit() {
  if (roster_.n_free_seats() == 0 || roster_.n_waiting() == 0) return;
  look_at_residents();
  look_at_prefixes();
  const auto now = Clock::now();
  while (admit_next(now)) {
  }
}

void EngineCore::look_at_residents() {
  std::map<const FairShare::Member *, bool> known;  // requests of one wear the same
  for (const auto &job : roster_.queue()) {
    const auto [place, is_new] = known.emplace(job->share, true);
    if (is_new) {
      place->second = std::ranges::all_of(adapter_key_of(job->request), [&](const auto &digest) {
        return executor_->is_resident(digest);
      });
    }
    job->adapters_resident = place->second;
  }
}

/// A few at a time: a queue of hundreds would take a good part of a step, and this is only a
/// preference.
void EngineCore::look_at_prefixes() {
  constexpr size_t k_looks = 8;
  const auto &queue = roster_.queue();
  for (size_t i = 0; i < std::min(k_looks, queue.size()); ++i) {
    Job &job = *queue[next_look_++ % queue.size()];
    if (may_adopt(job)) {
      job.n_cached_estimate =
          executor_->match(job.request.tenant, {job.request.prompt, job.worn}).n_tokens;
    }
  }
}

bool EngineCore::admit_next(Clock::time_point now) {
  const auto [sequence, job] = roster_.next(now);
  if (sequence != nullptr && fits(sequence->job(), sequence->content())) {
    take_seats(sequence);
    return true;
  }
  if (job != nullptr && fits(*job, {job->request.prompt, job->worn})) {
    start(job, now);
    return true;
  }
  return false;
}

/// Whether a sequence of the job can be computed without taking memory that others are about to
/// need: the rest of their prompts, and a block for each to grow into. What running sequences hold
/// of it costs nothing.
bool EngineCore::fits(const Job &job, const ContentView &known) const {
  const uint32_t n_seats = n_seats_of(job);
  if (n_seats > roster_.n_free_seats()) return false;
  if (roster_.n_seated() == 0) return true;
  const uint32_t n_shared =
      may_adopt(job) ? executor_->match(job.request.tenant, known).n_tokens_in_use : 0;
  uint64_t n_needed = known.tokens.size() - n_shared + executor_->block_size() * uint64_t{n_seats};
  for (const auto &sequence : roster_.sequences()) {
    if (!sequence->is_seated()) continue;
    n_needed += sequence->n_tokens() - sequence->n_computed() + executor_->block_size();
  }
  return n_needed <= executor_->n_free_tokens();
}

void EngineCore::start(const std::shared_ptr<Job> &job, Clock::time_point now) try {
  roster_.admit(job, now);
  outside_.left_queue(job->request);
  job->admitted = now;
  job->n_open = job->request.n_choices;
  if (job->request.embedding)
    job->pooler = std::make_unique<Pooler>(*job->request.embedding, job->request.prompt.size());
  auto spans = make_resident(*job);
  if (!spans) {
    end_job(job, spans.error());
    return;
  }
  job->spans = *std::move(spans);
  count_start(*job);
  take_seats(std::make_shared<Sequence>(job, 0, executor_->model().tokenizer));
} catch (const std::exception &error) {  // out of memory, most likely
  end_job(job, Error{ErrorCode::internal, error.what()});
}

/// A seat, and those for the choices that the sequence will be forked into.
void EngineCore::take_seats(const std::shared_ptr<Sequence> &sequence) {
  const uint32_t n_spare = n_seats_of(sequence->job()) - 1;
  roster_.seat(sequence);
  roster_.keep_spare_seats(sequence->job(), n_spare);
  if (!limits_.keep_prefixes) return;
  executor_->begin(sequence->seq_id(), sequence->job().request.tenant);
  if (!may_adopt(sequence->job())) return;
  adopt(*sequence);
  find_leader(*sequence);
}

/// Unless early tokens have to be computed, for their logits or hidden states.
bool EngineCore::may_adopt(const Job &job) const {
  const auto &pooling = job.request.embedding;
  const bool reads_early = job.request.prompt_logits || (pooling && *pooling != Pooling::last);
  return limits_.keep_prefixes && (job.forked || !reads_early);
}

/// All but the last known token, whose logits are wanted.
void EngineCore::adopt(Sequence &sequence) {
  Job &job = sequence.job();
  ContentView known = sequence.content();
  known.tokens = known.tokens.first(known.tokens.size() - 1);
  const uint32_t n_more = executor_->adopt(sequence.seq_id(), known) - sequence.n_computed();
  sequence.computed(n_more);
  // Later ones were computed by this request before.
  if (job.usage.n_preemptions == 0) count_cached(job, n_more);
}

/// Whoever comes earlier and is about to compute what this sequence begins with does it for both.
void EngineCore::find_leader(Sequence &sequence) const {
  const Job &job = sequence.job();
  const uint32_t block_size = executor_->block_size();
  std::shared_ptr<const Sequence> leader;
  uint32_t n_most = sequence.n_computed() / block_size * block_size;
  for (const auto &other : roster_.sequences()) {
    if (other.get() == &sequence) break;
    if (!other->is_seated() || other->job().request.tenant != job.request.tenant) continue;
    const uint32_t n_shared =
        std::min(n_common(other->content(), sequence.content()), sequence.n_tokens() - 1) /
        block_size * block_size;
    if (n_shared <= n_most || other->n_computed() >= n_shared) continue;
    leader = other;
    n_most = n_shared;
  }
  if (leader != nullptr) sequence.follow(leader, n_most);
}

void EngineCore::go_on_following() {
  for (const auto &sequence : roster_.sequences()) {
    if (!sequence->is_following() || !sequence->can_go_on()) continue;
    sequence->stop_following();
    adopt(*sequence);
    // One that was to compute it for several may have ended before: the first of these does it now.
    find_leader(*sequence);
  }
}

Expected<std::vector<AdapterSpan>> EngineCore::make_resident(Job &job) {
  std::vector<AdapterSpan> spans;
  try {
    for (const auto &[first, adapters] : job.request.spans) {
      std::vector<Worn> worn;
      for (const auto &[adapter, strength] : adapters) {
        if (strength != 0)
          worn.push_back(
              {residency_.acquire(adapter, job.packed[adapter.get()], job.leases), strength});
      }
      spans.push_back({first, executor_->canonical(worn)});
    }
  } catch (const LoadError &error) {
    return fail(error.code(), error.what());
  }
  job.packed.clear();
  if (spans.empty()) spans.push_back({});
  return spans;
}

std::vector<EngineCore::Part> EngineCore::schedule() const {
  std::vector<Part> parts;
  std::vector<SeqProgress> progress;
  for (const auto &sequence : roster_.sequences()) {
    if (!sequence->is_seated() || sequence->is_following()) continue;
    parts.push_back({.sequence = sequence});
    progress.push_back({sequence->n_tokens(), sequence->n_computed()});
  }
  const auto n_tokens = schedule_step(
      progress, {.n_ubatch = limits_.n_ubatch, .n_prefill_beside = limits_.n_prefill_beside});
  for (size_t i = 0; i < parts.size(); ++i) parts[i].n_tokens = n_tokens[i];
  std::erase_if(parts, [](const Part &part) { return part.n_tokens == 0; });
  return parts;
}

StepPlan EngineCore::plan(std::span<const Part> parts) const {
  std::vector<Chunk> chunks;
  for (const auto &part : parts) chunks.push_back(part.sequence->next_chunk(part.n_tokens));
  return plan_step(chunks);
}

/// Plans and runs a step; those admitted last give their memory up until it fits.
Expected<std::vector<EngineCore::Part>> EngineCore::compute() {
  while (true) {
    const auto start = Clock::now();
    std::vector<Part> parts = schedule();
    const StepPlan plan = this->plan(parts);
    const auto planned = Clock::now();
    const auto logits = executor_->run(plan);
    counters_.step_times.plan_ms += ms_between(start, planned);
    counters_.step_times.compute_ms += ms_between(planned, Clock::now());
    if (logits) {
      counters_.n_tokens_computed += plan.rows.size();
      count_sets(counters_.step_sets, plan.sets);
      deal_outputs(plan, *logits, parts);
      return parts;
    }
    if (logits.error().code != ErrorCode::context_overflow || roster_.n_seated() == 1) {
      // A step that fails ends the requests in it, and no other.
      for (const auto &part : parts) end_job(part.sequence->shared_job(), logits.error());
      return tl::unexpected(logits.error());
    }
    preempt_last();
  }
}

/// They came in the order of the plan's rows.
void EngineCore::deal_outputs(const StepPlan &plan, std::span<const float> logits,
                              std::vector<Part> &parts) const {
  const size_t n_vocab = executor_->model().hparams().n_vocab;
  const size_t n_embd = executor_->model().hparams().n_embd;
  std::span<const float> hidden = executor_->hidden();
  std::map<int32_t, Part *> part_of;
  for (auto &part : parts) part_of[part.sequence->seq_id()] = &part;
  for (const auto &row : plan.rows) {
    if (!row.wants_logits && !row.wants_hidden) continue;
    Part &part = *part_of[row.place.seq_id];
    auto &from = row.wants_logits ? logits : hidden;
    const size_t n = row.wants_logits ? n_vocab : n_embd;
    (row.wants_logits ? part.logits : part.hidden)[row.place.pos] = from.first(n);
    from = from.subspan(n);
  }
}

void EngineCore::preempt_last() {
  const auto &sequences = roster_.sequences();
  const auto seated = [](const auto &sequence) { return sequence->is_seated(); };
  const auto last = std::ranges::find_if(sequences.rbegin(), sequences.rend(), seated);
  unseat(**last);
  Job &job = (*last)->job();
  ++job.usage.n_preemptions;
  ++counters_.n_preemptions;
  job.services.count([](ServiceStats &stats) { ++stats.n_preemptions; });
}

void EngineCore::commit(const std::vector<Part> &parts) {
  for (const auto &part : parts) {
    part.sequence->computed(part.n_tokens);
    part.sequence->job().services.count(
        [&](ServiceStats &stats) { stats.n_tokens_computed += part.n_tokens; });
  }
  for (const auto &part : parts) {
    // Another choice of the same request may just have ended it.
    if (!part.sequence->is_seated()) continue;
    const auto finite = [](const auto &row) { return all_finite(row.second); };
    if (!std::ranges::all_of(part.logits, finite) || !std::ranges::all_of(part.hidden, finite)) {
      // The fault is this request's own: whoever computed beside it goes on.
      end_job(
          part.sequence->shared_job(),
          Error{worn_adapters(part.sequence->job().request).empty() ? ErrorCode::internal
                                                                    : ErrorCode::invalid_argument,
                "a step gave numbers that are not finite: the weights, or an adapter at its "
                "strength, are too large"});
      continue;
    }
    take_outputs(part);
  }
}

void EngineCore::take_outputs(const Part &part) {
  if (!part.hidden.empty()) take_hidden(part);
  if (!part.logits.empty()) take_logits(part);
}

void EngineCore::take_hidden(const Part &part) {
  const auto job = part.sequence->shared_job();
  if (!job->pooler) return;
  for (const auto &[pos, row] : part.hidden) job->pooler->add(static_cast<size_t>(pos), row);
  if (!job->pooler->is_complete()) return;
  emit(*job, EmbeddingEvent{job->pooler->take()});
  end_job(job, std::nullopt);
}

void EngineCore::take_logits(const Part &part) {
  Sequence &sequence = *part.sequence;
  Job &job = sequence.job();
  if (job.request.prompt_logits && !job.forked) {
    // Computed again after a preemption, the first ones have been sent before.
    LogitsEvent event{.first = job.n_logits_sent};
    for (const auto &[pos, row] : part.logits) {
      if (pos < job.n_logits_sent) continue;
      event.logits.insert(event.logits.end(), row.begin(), row.end());
      job.n_logits_sent = pos + 1;
    }
    if (!event.logits.empty()) emit(job, std::move(event));
  }
  if (sequence.n_computed() < sequence.n_tokens()) return;
  const auto last = part.logits.rbegin()->second;
  if (job.forked) {
    draw(sequence, last);
    return;
  }
  for (const auto &choice : fork_choices(part.sequence)) {
    if (!job.ended) draw(*choice, last);
  }
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
    roster_.seat_in_spare(choice, first->n_computed());
    executor_->fork(first->seq_id(), choice->seq_id());
    choices.push_back(std::move(choice));
  }
  return choices;
}

void EngineCore::draw(Sequence &sequence, std::span<const float> logits) {
  Job &job = sequence.job();
  if (job.request.n_predict == 0) {
    end_choice(sequence, StopReason::length);
    return;
  }
  auto drawn = sequence.draw(logits, limits_.n_ctx);
  if (!drawn) {
    end_job(sequence.shared_job(), drawn.error());
    return;
  }
  auto &[event, end] = *drawn;
  if (event) {
    ++job.usage.n_tokens_out;
    ++counters_.n_tokens_out;
    job.services.count([](ServiceStats &stats) { ++stats.n_tokens_out; });
    roster_.charge(job, k_drawn_token_cost);
    emit(job, *std::move(event));
  }
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
  if (roster_.leave_queue(job)) outside_.left_queue(job->request);
  const auto sequences = roster_.sequences();
  for (const auto &sequence : sequences) {
    if (sequence->shared_job() == job) remove(*sequence);
  }
  roster_.free_spare_seats(*job);
  residency_.release(job->leases);
  count_end(*job, error);
  roster_.close(*job);
  services_.close(job->services);
  emit(*job, RequestEnd{.usage = usage_of(*job), .error = std::move(error)});
}

void EngineCore::end_all(const Error &error) {
  while (!roster_.queue().empty()) end_job(std::shared_ptr(roster_.queue().front()), error);
  while (!roster_.sequences().empty()) {
    const auto sequence = roster_.sequences().front();
    end_job(sequence->shared_job(), error);
    remove(*sequence);
  }
}

/// What it asks for is charged at once, or all free seats would go to whoever was served least.
/// What it is computed once more for, after a preemption, was not its wish and is not charged.
void EngineCore::count_start(Job &job) {
  const auto n_prompt = static_cast<uint32_t>(job.request.prompt.size());
  roster_.charge(job, k_prompt_token_cost * n_prompt);
  const double queue_ms = ms_between(job.submitted, job.admitted);
  job.services.count([&](ServiceStats &stats) {
    stats.n_tokens_prompt += n_prompt;
    stats.queue_ms += queue_ms;
    stats.queue_worst_ms = std::max(stats.queue_worst_ms, queue_ms);
  });
}

/// Tokens of its prompt that need not be computed are not charged.
void EngineCore::count_cached(Job &job, uint32_t n_tokens) {
  job.usage.n_tokens_cached += n_tokens;
  roster_.charge(job, -k_prompt_token_cost * n_tokens);
  job.services.count([&](ServiceStats &stats) { stats.n_tokens_cached += n_tokens; });
}

void EngineCore::count_end(const Job &job, const std::optional<Error> &error) {
  const auto count = [&](auto &stats) {
    if (!error) {
      ++stats.n_requests_done;
    } else if (error->code == ErrorCode::cancelled) {
      ++stats.n_requests_cancelled;
    } else {
      ++stats.n_requests_failed;
    }
  };
  count(counters_);
  job.services.count(count);
  if (!error || error->code != ErrorCode::deadline_exceeded) return;
  job.services.count([](ServiceStats &stats) { ++stats.n_requests_expired; });
}

void EngineCore::emit(const Job &job, Event event) {
  if (job.events->push(std::move(event))) outside_.notify(job.events);
}

void EngineCore::remove(Sequence &sequence) {
  unseat(sequence);
  roster_.remove(sequence);
}

void EngineCore::unseat(Sequence &sequence) {
  if (!sequence.is_seated()) return;
  executor_->release(sequence.seq_id());
  roster_.unseat(sequence);
  // Who waits holds no seats: others might wait for just those.
  if (!sequence.job().forked) roster_.free_spare_seats(sequence.job());
}

EngineStats EngineCore::stats() const {
  EngineStats stats = counters_;
  fill_gauges(stats);
  residency_.publish(stats.residency);
  services_.copy_to(stats);
  return stats;
}

void EngineCore::publish(EngineStats &stats) {
  // Counted here are only the sums; the maps stay where they are.
  auto tenants = std::move(stats.tenants);
  auto adapters = std::move(stats.adapters);
  auto residency = std::move(stats.residency);
  stats = counters_;
  stats.tenants = std::move(tenants);
  stats.adapters = std::move(adapters);
  stats.residency = std::move(residency);
  fill_gauges(stats);
  residency_.publish(stats.residency);
  services_.publish(stats);
}

void EngineCore::fill_gauges(EngineStats &stats) const {
  stats.n_queued = roster_.n_waiting();
  stats.n_running = roster_.n_seated();
  stats.n_kv_tokens = executor_->n_kv_tokens();
  stats.n_block_tokens = executor_->block_size();
  stats.n_kv_tokens_used = stats.n_kv_tokens - executor_->n_free_tokens();
  stats.n_adapters = residency_.n_adapters();
  stats.adapter_bytes = executor_->pool_bytes();
  stats.prefix_cache = executor_->prefix_cache_stats();
  stats.host_tier = executor_->host_tier_stats();
  stats.n_graphs_built = executor_->n_graphs_built();
}

EngineSnapshot EngineCore::snapshot() const {
  EngineSnapshot snapshot{.n_seats = limits_.n_seqs_max, .n_ctx = limits_.n_ctx};
  std::set<std::shared_ptr<Job>> jobs;
  for (const auto &sequence : roster_.sequences()) {
    jobs.insert(sequence->shared_job());
    if (!sequence->is_seated()) continue;
    snapshot.taken.push_back({.seq_id = sequence->seq_id(),
                              .n_tokens = sequence->n_tokens(),
                              .n_computed = sequence->n_computed(),
                              .n_cached = executor_->n_tokens(sequence->seq_id())});
  }
  for (const auto &job : jobs)
    snapshot.spare.insert(snapshot.spare.end(), job->spare_seats.begin(), job->spare_seats.end());
  snapshot.free.assign(roster_.free_seats().begin(), roster_.free_seats().end());
  for (const auto &seats : {snapshot.spare, snapshot.free}) {
    for (const int32_t seat : seats)
      snapshot.n_cached_unseated.push_back(executor_->n_tokens(seat));
  }
  return snapshot;
}

}  // namespace patchbay
