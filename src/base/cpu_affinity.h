#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace patchbay {

/// The CPUs that the calling thread may run on, ascending; empty when the system does not say (more
/// than CPU_SETSIZE of them). A container or `taskset` may allow fewer than the machine has.
[[nodiscard]] std::vector<int> allowed_cpus();

/// How many those are, at least 1; when the system does not say, as many as the machine has.
[[nodiscard]] uint32_t n_allowed_cpus();

/// Puts the calling thread back on the CPUs that it had before, whatever happens to its affinity in
/// the scope; optionally keeps it on one CPU until then. Where the system refuses, because that CPU
/// is no longer allowed for instance, the thread simply stays where it was.
class AffinityScope {
 public:
  explicit AffinityScope(std::optional<int> cpu = std::nullopt);
  ~AffinityScope();
  AffinityScope(const AffinityScope &) = delete;
  AffinityScope &operator=(const AffinityScope &) = delete;

 private:
  std::optional<cpu_set_t> before_;
};

}  // namespace patchbay
