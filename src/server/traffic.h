#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "patchbay/request.hpp"
#include "server/histogram.h"

namespace patchbay {

/// How a request ended.
enum class Outcome {
  done,
  failed,     ///< the server's fault, or the request turned out to be wrong
  refused,    ///< too much was waiting, or the server shuts down
  expired,    ///< its deadline passed
  cancelled,  ///< whoever asked has gone
};
inline constexpr size_t k_n_outcomes = 5;
[[nodiscard]] const char *to_string(Outcome outcome);
[[nodiscard]] Outcome outcome_of(const Error &error);

/// What is counted for the requests that wear one adapter, or none. Any thread.
struct Traffic {
  std::array<std::atomic<uint64_t>, k_n_outcomes> requests{};
  std::atomic<uint64_t> n_tokens_prompt = 0;
  std::atomic<uint64_t> n_tokens_cached = 0;
  std::atomic<uint64_t> n_tokens_out = 0;
  Histogram queue{k_waiting_bounds};
  Histogram first_token{k_waiting_bounds};
  Histogram between_tokens{k_token_bounds};
};

/// The counters by name. They go on from where they were when a name comes back: names that are
/// used no longer are kept, the last used ones up to a bound. Any thread.
class TrafficCounters {
 public:
  explicit TrafficCounters(size_t n_most = 4096) : n_most_(n_most) {}

  /// New ones begin at 0.
  [[nodiscard]] std::shared_ptr<Traffic> of(const std::string &name);
  /// Null: nothing was counted for that name.
  [[nodiscard]] std::shared_ptr<Traffic> find(const std::string &name) const;

  /// Of all requests, each counted once.
  struct Totals {
    std::atomic<uint64_t> n_tokens_prompt_computed = 0;
    std::atomic<uint64_t> n_tokens_cached = 0;
    std::atomic<uint64_t> n_tokens_out = 0;
    std::atomic<uint64_t> n_tokens_longest = 0;  ///< of a prompt with its longest answer
    std::atomic<double> prompt_s = 0;
    std::atomic<double> decode_s = 0;
  };
  [[nodiscard]] Totals &totals() { return totals_; }
  [[nodiscard]] const Totals &totals() const { return totals_; }

 private:
  struct Entry {
    std::shared_ptr<Traffic> traffic;
    uint64_t last_used = 0;
  };

  mutable std::mutex mutex_;
  size_t n_most_;
  uint64_t n_uses_ = 0;
  std::map<std::string, Entry> entries_;
  Totals totals_;
};

/// Follows one request and counts it for everything that it wears, once it has ended. One that is
/// given up without an end was cancelled. One thread at a time.
class RequestMeter {
 public:
  using Clock = std::chrono::steady_clock;

  /// `names`: of the adapters; empty: the base. `counters` outlives the object.
  RequestMeter(TrafficCounters &counters, const std::vector<std::string> &names,
               Clock::time_point begin);
  ~RequestMeter();
  RequestMeter(const RequestMeter &) = delete;
  RequestMeter &operator=(const RequestMeter &) = delete;

  void note(const Event &event);
  /// It came to no event.
  void refuse(const Error &error) { count(outcome_of(error)); }

 private:
  void note_token(uint32_t i_choice);
  void end(const RequestEnd &end);
  void count(Outcome outcome);

  TrafficCounters &counters_;
  std::vector<std::shared_ptr<Traffic>> worn_;
  Clock::time_point begin_;
  struct Choice {
    Clock::time_point last_token;
    uint64_t n_tokens = 0;
  };
  std::map<uint32_t, Choice> choices_;
  bool has_ended_ = false;
};

}  // namespace patchbay
