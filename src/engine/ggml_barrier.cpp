#include "engine/ggml_barrier.h"

#include <dlfcn.h>
#include <ggml-cpp.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/threadpool_ptr.h"

namespace patchbay {
namespace {

/// Which pools are ours.
class PoolRegistry {
 public:
  void add(const ggml_threadpool *pool, PoolBarrier *barrier) {
    const std::unique_lock lock(mutex_);
    pools_.emplace_back(pool, barrier);
    version_.fetch_add(1, std::memory_order_release);
  }

  void remove(const PoolBarrier *barrier) {
    const std::unique_lock lock(mutex_);
    std::erase_if(pools_, [&](const auto &entry) { return entry.second == barrier; });
    version_.fetch_add(1, std::memory_order_release);
  }

  /// Null for a pool that is not ours. Asked after every node, so each thread remembers its last
  /// answer for as long as no pool comes or goes; a new pool may have the address of an old one.
  [[nodiscard]] PoolBarrier *find(const ggml_threadpool *pool) noexcept {
    struct Answer {
      const ggml_threadpool *pool = nullptr;
      uint64_t version = 0;
      PoolBarrier *barrier = nullptr;
    };
    static thread_local constinit Answer last;
    const uint64_t version = version_.load(std::memory_order_acquire);
    if (last.pool != pool || last.version != version) last = {pool, version, look_up(pool)};
    return last.barrier;
  }

 private:
  [[nodiscard]] PoolBarrier *look_up(const ggml_threadpool *pool) noexcept {
    const std::shared_lock lock(mutex_);
    const auto found =
        std::ranges::find(pools_, pool, [](const auto &entry) { return entry.first; });
    return found == pools_.end() ? nullptr : found->second;
  }

  std::shared_mutex mutex_;
  std::vector<std::pair<const ggml_threadpool *, PoolBarrier *>> pools_;
  std::atomic<uint64_t> version_{1};  // an empty Answer has 0
};

/// Never destroyed: ggml's threads may outlive the static objects of a program that exits.
PoolRegistry &registry() {
  static auto *const all = new PoolRegistry;
  return *all;
}

using BarrierFunction = void (*)(ggml_threadpool *);

/// The definition that comes after ours in the order of the dynamic linker; null when there is
/// none.
BarrierFunction ggmls_own_barrier() noexcept {
  static const auto next = reinterpret_cast<BarrierFunction>(dlsym(RTLD_NEXT, "ggml_barrier"));
  return next;
}

bool ggml_has_openmp() {
  ggml_backend_reg_t reg = ggml_backend_cpu_reg();
  const auto features = reinterpret_cast<ggml_backend_get_features_t>(
      ggml_backend_reg_get_proc_address(reg, "ggml_backend_get_features"));
  if (features == nullptr) return false;
  for (const auto *feature = features(reg); feature->name != nullptr; ++feature) {
    if (std::string_view(feature->name) == "OPENMP") return true;
  }
  return false;
}

/// Adds two vectors with two threads and looks whether they met in our barrier.
bool probe() {
  constexpr int n_threads = 2;
  constexpr size_t memory_bytes = 1 << 16;
  const ggml_context_ptr context(
      ggml_init({.mem_size = memory_bytes, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor *x = ggml_set_f32(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 64), 1);
  ggml_cgraph *graph = ggml_new_graph_custom(context.get(), 8, false);
  ggml_build_forward_expand(graph, ggml_add(context.get(), x, x));

  ggml_threadpool_params params = ggml_threadpool_params_default(n_threads);
  params.poll = 0;
  std::unique_ptr<PoolBarrier> barrier;  // outlives the pool
  const threadpool_ptr pool(ggml_threadpool_new(&params));
  barrier = std::make_unique<PoolBarrier>(pool.get());
  ggml_cplan plan = ggml_graph_plan(graph, n_threads, pool.get());
  std::vector<uint8_t> work(plan.work_size);
  plan.work_data = work.data();
  barrier->set_n_threads(static_cast<uint32_t>(plan.n_threads));
  return ggml_graph_compute(graph, &plan) == GGML_STATUS_SUCCESS && barrier->n_rounds() > 0;
}

}  // namespace

PoolBarrier::PoolBarrier(const ggml_threadpool *pool) { registry().add(pool, this); }

PoolBarrier::~PoolBarrier() { registry().remove(this); }

bool ggml_uses_our_barrier() {
  static const bool uses = !ggml_has_openmp() && ggmls_own_barrier() != nullptr && probe();
  return uses;
}

}  // namespace patchbay

/// Takes the place of ggml's function of this name, which its private header declares. Weak, so
/// that a program with ggml linked statically still links, and then has ggml's.
extern "C" __attribute__((weak, visibility("default"))) void ggml_barrier(ggml_threadpool *pool) {
  using namespace patchbay;
  if (PoolBarrier *ours = registry().find(pool)) {
    ours->arrive_and_wait();
  } else if (const BarrierFunction ggmls = ggmls_own_barrier()) {
    ggmls(pool);
  } else {
    log().critical("ggml_barrier: ggml's own definition is not to be found");
    std::abort();
  }
}
