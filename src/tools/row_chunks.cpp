#include "tools/row_chunks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "base/rounding.h"

namespace patchbay {
namespace {

/// Deals out chunks until there are none or one of them has failed.
class Chunks {
 public:
  Chunks(int64_t n_rows, int64_t n_per_expert, int64_t n_per_chunk)
      : n_per_expert_(n_per_expert),
        n_per_chunk_(n_per_chunk),
        n_in_expert_(ceil_div(n_per_expert, n_per_chunk)),
        n_chunks_(n_rows / n_per_expert * n_in_expert_) {}

  void work_off(const std::function<void(RowChunk)> &work) {
    for (int64_t i = next_++; i < n_chunks_; i = next_++) {
      try {
        work(chunk(i));
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (failure_ == nullptr) failure_ = std::current_exception();
        next_ = n_chunks_;
      }
    }
  }

  void throw_failure() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

  [[nodiscard]] int64_t n_chunks() const { return n_chunks_; }

 private:
  [[nodiscard]] RowChunk chunk(int64_t i) const {
    const int64_t begin = i % n_in_expert_ * n_per_chunk_;
    return {.first = i / n_in_expert_ * n_per_expert_ + begin,
            .n_rows = std::min(n_per_chunk_, n_per_expert_ - begin)};
  }

  int64_t n_per_expert_;
  int64_t n_per_chunk_;
  int64_t n_in_expert_;
  int64_t n_chunks_;
  std::atomic<int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

void for_each_chunk(int64_t n_rows, int64_t n_per_expert, int64_t n_per_chunk, uint32_t n_threads,
                    const std::function<void(RowChunk)> &work) {
  Chunks chunks(n_rows, n_per_expert, n_per_chunk);
  {
    std::vector<std::jthread> others;
    const auto n_wanted = std::min<int64_t>(n_threads, chunks.n_chunks());
    for (int64_t i = 1; i < n_wanted; ++i) others.emplace_back([&] { chunks.work_off(work); });
    chunks.work_off(work);
  }
  chunks.throw_failure();
}

int64_t rows_per_chunk(int64_t n_per_row) {
  constexpr int64_t k_numbers = int64_t{1} << 16;
  return std::max<int64_t>(1, k_numbers / n_per_row);
}

uint32_t all_cores() { return std::max(1U, std::thread::hardware_concurrency()); }

}  // namespace patchbay
