#pragma once

#include <cstddef>
#include <functional>

namespace patchbay {

/// Calls `work(i)` once for each i below `n`, in any order, on as many threads as the calling one
/// has CPUs that it may run on; with fewer where the system gives none. Returns when all is done.
/// Throws what a call threw, the first one in time; later parts may then be left out.
void for_each_part(size_t n, const std::function<void(size_t i)> &work);

}  // namespace patchbay
