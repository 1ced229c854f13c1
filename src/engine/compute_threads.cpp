#include "engine/compute_threads.h"

#include <new>

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

}  // namespace

ComputeThreads::ComputeThreads(uint32_t n_threads, Waiting waiting) : n_threads_(n_threads) {
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
  if (our_barrier) barrier_ = std::make_unique<PoolBarrier>(pool_.get());
}

void ComputeThreads::place(ggml_threadpool_params &params, const std::vector<int> &cpus) {
  // A thread that looks out for the next graph instead of sleeping burns a core after every step.
  params.poll = 0;
  if (cpus.empty()) return;
  params.strict_cpu = true;
  for (const int cpu : cpus) params.cpumask[cpu] = true;
  // ggml deals the CPUs out in ascending order, to the calling thread last.
  callers_cpu_ = cpus.back();
}

ggml_status ComputeThreads::compute(ggml_cgraph *graph) {
  ggml_cplan plan = ggml_graph_plan(graph, static_cast<int>(n_threads_), pool_.get());
  try {
    if (work_.size() < plan.work_size) work_.resize(plan.work_size);
  } catch (const std::bad_alloc &) {
    return GGML_STATUS_ALLOC_FAILED;
  }
  plan.work_data = work_.data();
  // Fewer than n_threads when no operation of the graph can be split that far.
  if (barrier_) barrier_->set_n_threads(static_cast<uint32_t>(plan.n_threads));
  const AffinityScope placed(callers_cpu_);
  return ggml_graph_compute(graph, &plan);
}

}  // namespace patchbay
