#include "engine/compute_threads.h"

#include <ggml-cpp.h>

#include <algorithm>
#include <array>
#include <functional>
#include <new>
#include <optional>

#include "base/cpu_affinity.h"
#include "base/log.h"

namespace patchbay {
namespace {

void warn_once_without_our_barrier() {
  [[maybe_unused]] static const bool warned = [] {
    log().warn(
        "ggml's thread barrier could not be replaced: steps become slow while other programs keep "
        "the cores busy");
    return true;
  }();
}

/// One CPU for each thread, or none where threads are better moved about by the system: with cores
/// to spare it finds idle ones, and two programs would choose the same. ggml's own barrier needs
/// them anyway, as two of its threads on one core take a time slice per node.
std::vector<int> choose_cpus(uint32_t n_threads, bool our_barrier) {
  std::vector<int> cpus = allowed_cpus();
  const bool fills_all = cpus.size() == n_threads;
  const bool must = !our_barrier && cpus.size() > n_threads;
  if (n_threads == 1 || !(fills_all || must) || cpus[n_threads - 1] >= GGML_MAX_N_THREADS)
    return {};
  cpus.resize(n_threads);
  return cpus;
}

using Roll = std::vector<std::optional<ThreadClock>>;

void answer(ggml_tensor * /*dst*/, int i_thread, int /*n_threads*/, void *roll) {
  (*static_cast<Roll *>(roll))[static_cast<size_t>(i_thread)] = ThreadClock::of_this_thread();
}

}  // namespace

ComputeThreads::ComputeThreads(uint32_t n_threads, Waiting waiting)
    : n_threads_(n_threads), count_(n_threads), allowed_cpus_(allowed_cpus()) {
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(n_threads));
  const bool ours = waiting == Waiting::yielding && n_threads > 1;
  const bool our_barrier = ours && ggml_uses_our_barrier();
  if (ours) {
    if (!our_barrier) warn_once_without_our_barrier();
    place(params, choose_cpus(n_threads, our_barrier));
  }
  // ggml puts the calling thread on its CPU at once and for good; ours is there while it computes.
  const AffinityScope keep;
  pool_.reset(ggml_threadpool_new(&params));
  if (!our_barrier) return;
  barrier_ = std::make_unique<PoolBarrier>(pool_.get());
  call_roll();
}

void ComputeThreads::place(ggml_threadpool_params &params, const std::vector<int> &cpus) {
  // A thread that looks out for the next graph instead of sleeping burns a core after every step.
  params.poll = 0;
  if (cpus.empty()) return;
  params.strict_cpu = true;
  for (const int cpu : cpus) params.cpumask[cpu] = true;
  // ggml deals the CPUs out in ascending order, to the calling thread last.
  callers_cpu_ = {cpus.back()};
}

/// ggml does not say which threads it made: a node of a graph asks each for its clock. Another node
/// comes before it, as threads meet in our barrier only after one.
void ComputeThreads::call_roll() {
  constexpr size_t memory_bytes = 1 << 12;
  const ggml_context_ptr context(
      ggml_init({.mem_size = memory_bytes, .mem_buffer = nullptr, .no_alloc = false}));
  Roll roll(n_threads_);
  ggml_tensor *zero = ggml_set_zero(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 1));
  std::array sources{ggml_neg(context.get(), zero)};
  ggml_cgraph *graph = ggml_new_graph_custom(context.get(), 4, false);
  ggml_build_forward_expand(
      graph, ggml_custom_4d(context.get(), GGML_TYPE_F32, 1, 1, 1, 1, sources.data(),
                            static_cast<int>(sources.size()), answer, GGML_N_TASKS_MAX, &roll));
  ggml_cplan plan = ggml_graph_plan(graph, static_cast<int>(n_threads_), pool_.get());
  if (run(graph, plan) != GGML_STATUS_SUCCESS) return;
  for (uint32_t i = 1; i < n_threads_; ++i) {
    if (const auto &clock = roll[i]) workers_.push_back(*clock);
  }
}

ggml_status ComputeThreads::compute(ggml_cgraph *graph) {
  const uint32_t n = count_.n();
  ggml_cplan plan = ggml_graph_plan(graph, static_cast<int>(n), pool_.get());
  // Fewer than n when no operation of the graph can be split that far: the others would only seem
  // to be kept from their work.
  if (workers_.empty() || plan.n_threads < static_cast<int>(n)) return run(graph, plan);
  const auto start = ThreadCount::Clock::now();
  std::vector<ThreadCount::Clock::duration> ran = times_run(n);
  const ggml_status status = run(graph, plan);
  const auto end = ThreadCount::Clock::now();
  std::ranges::transform(times_run(n), ran, ran.begin(), std::minus());
  count_.observe(end, end - start, ran);
  move_workers();
  return status;
}

/// Of the first `n_threads` threads, the calling one in front.
std::vector<ThreadCount::Clock::duration> ComputeThreads::times_run(uint32_t n_threads) const {
  std::vector<ThreadCount::Clock::duration> times{ThreadClock::of_this_thread().now()};
  for (uint32_t i = 1; i < n_threads; ++i) times.push_back(workers_[i - 1].now());
  return times;
}

/// Fewer threads than cores go where there is room.
void ComputeThreads::move_workers() {
  if (callers_cpu_.empty()) return;
  if (count_.n() == n_threads_) {
    roaming_.clear();
  } else if (roaming_.empty()) {
    for (const auto &worker : workers_) roaming_.emplace_back(allowed_cpus_, worker.thread_id());
  }
}

ggml_status ComputeThreads::run(ggml_cgraph *graph, ggml_cplan &plan) {
  try {
    if (work_.size() < plan.work_size) work_.resize(plan.work_size);
  } catch (const std::bad_alloc &) {
    return GGML_STATUS_ALLOC_FAILED;
  }
  plan.work_data = work_.data();
  if (barrier_) barrier_->set_n_threads(static_cast<uint32_t>(plan.n_threads));
  const AffinityScope placed(roaming_.empty() ? callers_cpu_ : std::vector<int>{});
  return ggml_graph_compute(graph, &plan);
}

}  // namespace patchbay
