#include "base/cpu_affinity.h"

#include <algorithm>
#include <thread>

namespace patchbay {
namespace {

std::optional<cpu_set_t> affinity_of_this_thread() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0) return std::nullopt;
  return cpus;
}

}  // namespace

std::vector<int> allowed_cpus() {
  std::vector<int> allowed;
  const auto cpus = affinity_of_this_thread();
  for (int cpu = 0; cpus && cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &*cpus)) allowed.push_back(cpu);
  }
  return allowed;
}

uint32_t n_allowed_cpus() {
  const auto n_allowed = static_cast<uint32_t>(allowed_cpus().size());
  return n_allowed > 0 ? n_allowed : std::max(1U, std::thread::hardware_concurrency());
}

AffinityScope::AffinityScope(std::optional<int> cpu) : before_(affinity_of_this_thread()) {
  if (!before_ || !cpu) return;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(*cpu, &only);
  (void)sched_setaffinity(0, sizeof(only), &only);
}

AffinityScope::~AffinityScope() {
  if (before_) (void)sched_setaffinity(0, sizeof(*before_), &*before_);
}

}  // namespace patchbay
