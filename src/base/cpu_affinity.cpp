#include "base/cpu_affinity.h"

#include <algorithm>
#include <thread>

namespace patchbay {
namespace {

/// 0 is the calling thread.
std::optional<cpu_set_t> affinity_of(pid_t thread_id) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(thread_id, sizeof(cpus), &cpus) != 0) return std::nullopt;
  return cpus;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> allowed;
  const auto cpus = affinity_of(0);
  for (int cpu = 0; cpus && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &*cpus)) allowed.push_back(cpu);
  }
  return allowed;
}

uint32_t n_allowed_cpus() {
  const auto n_allowed = static_cast<uint32_t>(allowed_cpus().size());
  return n_allowed > 0 ? n_allowed : std::max(1U, std::thread::hardware_concurrency());
}

AffinityScope::AffinityScope(std::span<const int> cpus, pid_t thread_id)
    : thread_id_(thread_id), before_(affinity_of(thread_id)) {
  if (!before_ || cpus.empty()) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  for (const int cpu : cpus) CPU_SET(cpu, &only);
  (void)sched_setaffinity(thread_id_, sizeof(only), &only);
}

AffinityScope::~AffinityScope() {
  if (before_) (void)sched_setaffinity(thread_id_, sizeof(*before_), &*before_);
}

}  // namespace patchbay
