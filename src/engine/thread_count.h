#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

namespace patchbay {

/// How many threads compute while other programs may keep some of the cores busy. Threads meet
/// after every node of a graph, so one that gets half a core halves the speed of all the others:
/// then fewer of them are faster. Pure arithmetic over what was measured; one thread.
class ThreadCount {
 public:
  using Clock = std::chrono::steady_clock;

  explicit ThreadCount(uint32_t n_most) : n_most_(n_most), n_(n_most) {}

  /// For the next graph: from 1 to n_most.
  [[nodiscard]] uint32_t n() const { return n_; }

  /// What a graph took that ended at `end`, and how long each of its n() threads ran meanwhile.
  /// Short graphs are judged together. Threads that were kept off their cores lower the number;
  /// from time to time all are tried again, less often the longer that is in vain.
  void observe(Clock::time_point end, Clock::duration took, std::span<const Clock::duration> ran);

 private:
  /// Threads that had nearly all of the time.
  [[nodiscard]] uint32_t n_undisturbed() const;
  void judge(Clock::time_point now);

  uint32_t n_most_;
  uint32_t n_;
  Clock::duration took_{};  // since the last judgement
  std::vector<Clock::duration> ran_;
  Clock::duration pause_{};       // before all are tried again; zero: none has been disturbed
  Clock::time_point next_try_{};  // while n_ is below n_most_
};

}  // namespace patchbay
