#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace patchbay {

/// Upper bounds in seconds of what a person waits for.
inline constexpr std::array<double, 15> k_waiting_bounds{
    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
/// The same of what happens once per token.
inline constexpr std::array<double, 12> k_token_bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                                                       0.05,   0.1,   0.25,   0.5,   1,    2.5};

/// What a histogram says at one moment.
struct HistogramCounts {
  std::vector<double> bounds{};  ///< rising
  std::vector<uint64_t>
      counts{};  ///< up to each bound and above the one before; one more: the rest
  double sum = 0;
};

/// Counts durations by length. Any thread.
class Histogram {
 public:
  /// `bounds` rise, and outlive the object.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void observe(double seconds);
  [[nodiscard]] HistogramCounts counts() const;

 private:
  std::span<const double> bounds_;
  std::vector<std::atomic<uint64_t>> counts_;
  std::atomic<double> sum_ = 0;
};

}  // namespace patchbay
