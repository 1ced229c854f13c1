// busy_neighbour MODEL [ROUNDS] [SECONDS]: how long a decode step takes while other programs keep
// the cores busy, with our compute threads and with ggml's own, taken in turns; and what both burn
// when there is nothing to do.
//
// Each round measures both beside 0, 1 and 2 busy loops (processes of its own), SECONDS per cell
// and 3 steps at least. Prints mean and largest step in ms over all rounds, and the mean as a
// multiple of that without neighbours.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/compute_options.h"
#include "engine/executor.h"

namespace patchbay {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr size_t k_most_neighbours = 2;
constexpr uint32_t k_n_cells = 256;

/// A process that computes nothing, as busily as it can, until this object ends.
class Neighbour {
 public:
  Neighbour() : pid_(fork()) {
    if (pid_ < 0) throw std::runtime_error("fork failed");
    if (pid_ > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<unsigned> i = 0;; ++i) {
    }
  }
  ~Neighbour() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Neighbour(const Neighbour &) = delete;
  Neighbour &operator=(const Neighbour &) = delete;

 private:
  pid_t pid_;
};

/// One way of waiting: an engine that decodes one sequence, and its steps by number of neighbours.
struct Contestant {
  std::string name;
  std::unique_ptr<Executor> executor;
  std::array<std::vector<double>, k_most_neighbours + 1> steps_ms{};
  double idle_cpu = 0;  // CPU seconds per second without work
};

void step(Executor &executor, int32_t pos) {
  StepPlan plan{.sets = {AdapterSet{}}};
  plan.rows.push_back({.token = pos, .place = {0, pos}, .i_set = 0, .wants_logits = true});
  if (const auto logits = executor.run(plan); !logits)
    throw std::runtime_error(logits.error().message);
}

std::vector<double> decode(Executor &executor, double seconds) {
  constexpr size_t least_steps = 3;
  std::vector<double> steps_ms;
  const auto start = Clock::now();
  for (int32_t pos = 0;
       steps_ms.size() < least_steps || Milliseconds(Clock::now() - start).count() < seconds * 1e3;
       ++pos) {
    if (pos == static_cast<int32_t>(k_n_cells)) {
      executor.release(0);
      pos = 0;
    }
    const auto begin = Clock::now();
    step(executor, pos);
    steps_ms.push_back(Milliseconds(Clock::now() - begin).count());
  }
  executor.release(0);
  return steps_ms;
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double cpu_share_when_idle(Executor &executor) {
  constexpr int seconds = 2;
  step(executor, 0);
  executor.release(0);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  return (cpu_seconds() - before) / seconds;
}

double mean(const std::vector<double> &values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

void print(const Contestant &contestant) {
  fmt::print("{:<10}", contestant.name);
  const double idle = mean(contestant.steps_ms[0]);
  for (const auto &steps : contestant.steps_ms) {
    fmt::print(" {:>8.1f} {:>8.1f} {:>6.2f}x", mean(steps), std::ranges::max(steps),
               mean(steps) / idle);
  }
  fmt::print(" {:>10.1f} %\n", contestant.idle_cpu * 100);
}

void measure(const std::string &path, int n_rounds, double seconds) {
  const auto model = load_model(path, {});
  const uint32_t n_threads = compute_threads(0);
  const auto make = [&](ComputeThreads::Waiting waiting) {
    return std::make_unique<Executor>(
        model, Executor::Options{.kv = {.n_ctx = k_n_cells, .n_seqs_max = 1, .n_ubatch = 1},
                                 .n_threads = n_threads,
                                 .waiting = waiting});
  };
  std::array<Contestant, 2> contestants{
      {{.name = "ours", .executor = make(ComputeThreads::Waiting::yielding)},
       {.name = "ggml's", .executor = make(ComputeThreads::Waiting::stock)}}};
  for (auto &contestant : contestants) {
    (void)decode(*contestant.executor, 0.5);  // warms caches and pages
    contestant.idle_cpu = cpu_share_when_idle(*contestant.executor);
  }
  for (int round = 0; round < n_rounds; ++round) {
    for (size_t n = 0; n <= k_most_neighbours; ++n) {
      const std::vector<Neighbour> neighbours(n);
      for (auto &contestant : contestants) {
        // ggml's own threads look out for work for some time after a graph.
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        const auto steps = decode(*contestant.executor, seconds);
        contestant.steps_ms[n].insert(contestant.steps_ms[n].end(), steps.begin(), steps.end());
      }
    }
  }
  fmt::print("{} threads, {} rounds of {} s a cell; decode, one sequence; ms per step\n", n_threads,
             n_rounds, seconds);
  fmt::print("{:<10}", "");
  for (size_t n = 0; n <= k_most_neighbours; ++n) fmt::print(" {:>6} busy: mean, max, /idle", n);
  fmt::print("  CPU at rest\n");
  for (const auto &contestant : contestants) print(contestant);
}

}  // namespace
}  // namespace patchbay

int main(int argc, char **argv) try {
  if (argc < 2) {
    fmt::print(stderr, "usage: busy_neighbour MODEL [ROUNDS] [SECONDS]\n");
    return 2;
  }
  patchbay::measure(argv[1], argc > 2 ? std::stoi(argv[2]) : 3,
                    argc > 3 ? std::stod(argv[3]) : 2.5);
} catch (const std::exception &error) {
  fmt::print(stderr, "busy_neighbour: {}\n", error.what());
  return 1;
}
