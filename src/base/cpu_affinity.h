#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace patchbay {

/// The CPUs that the calling thread may run on, ascending; empty when the system does not say (more
/// than CPU_SETSIZE of them). A container or `taskset` may allow fewer than the machine has.
[[nodiscard]] std::vector<int> allowed_cpus();

/// How many those are, at least 1; when the system does not say, as many as the machine has.
[[nodiscard]] uint32_t n_allowed_cpus();

/// Keeps a thread on some CPUs, and puts it back on those that it had before at the end of the
/// scope, whatever has happened to its affinity in between. Where the system refuses, because a CPU
/// is no longer allowed for instance, the thread simply stays where it was.
class AffinityScope {
 public:
  /// `cpus`: none leaves the thread where it is for now. `thread_id`: 0 is the calling thread.
  explicit AffinityScope(std::span<const int> cpus = {}, pid_t thread_id = 0);
  ~AffinityScope();
  AffinityScope(const AffinityScope &) = delete;
  AffinityScope &operator=(const AffinityScope &) = delete;

 private:
  pid_t thread_id_;
  std::optional<cpu_set_t> before_;
};

}  // namespace patchbay
