#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace patchbay {

/// Calls `work(i)` once for each i below `n`, in any order, on `n_threads` threads, the calling one
/// among them; with fewer where the system gives none. 0: as many as the calling thread has CPUs
/// that it may run on. Returns when all is done. Throws what a call threw, the first one in time;
/// later parts may then be left out.
void for_each_part(size_t n, const std::function<void(size_t i)> &work, uint32_t n_threads = 0);

}  // namespace patchbay
