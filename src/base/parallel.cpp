#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/cpu_affinity.h"
#include "base/log.h"

namespace patchbay {

void for_each_part(size_t n, const std::function<void(size_t i)> &work, uint32_t n_threads) {
  std::atomic<size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto take_parts = [&] {
    for (size_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (failure == nullptr) failure = std::current_exception();
        next = n;
      }
    }
  };
  std::vector<std::jthread> threads;
  const size_t n_wanted = std::min<size_t>(n_threads > 0 ? n_threads : n_allowed_cpus(), n);
  try {
    while (threads.size() + 1 < n_wanted) threads.emplace_back(take_parts);
  } catch (const std::system_error &error) {
    log().debug("parts are worked on by {} threads: {}", threads.size() + 1, error.what());
  }
  take_parts();
  threads.clear();  // waits for them
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace patchbay
