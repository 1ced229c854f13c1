#include "engine/compute_threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "base/cpu_affinity.h"
#include "engine/chain_graph.h"

namespace patchbay {
namespace {

std::vector<float> compute(ComputeThreads &threads) {
  const Chain chain;
  EXPECT_EQ(threads.compute(chain.graph()), GGML_STATUS_SUCCESS);
  return chain.result();
}

std::vector<float> compute_with(
    uint32_t n_threads, ComputeThreads::Waiting waiting = ComputeThreads::Waiting::yielding) {
  ComputeThreads threads(n_threads, waiting);
  return compute(threads);
}

double cpu_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST(ComputeThreads, AnyNumberOfThemGivesTheSameBits) {
  const auto expected = compute_with(1);
  EXPECT_NE(expected, std::vector<float>(expected.size(), 0.0F));
  for (const uint32_t n_threads : {2U, 3U, 5U})
    EXPECT_EQ(compute_with(n_threads), expected) << n_threads;
}

TEST(ComputeThreads, GgmlsOwnBarrierServesPoolsThatAreNotOurs) {
  const auto expected = compute_with(1);
  EXPECT_EQ(compute_with(2, ComputeThreads::Waiting::stock), expected);
  // Beside one of ours, and from the same thread in turns.
  ComputeThreads ours(2);
  ComputeThreads stock(2, ComputeThreads::Waiting::stock);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(compute(ours), expected);
    EXPECT_EQ(compute(stock), expected);
  }
}

TEST(ComputeThreads, PoolsOfSeveralCallersDoNotDisturbEachOther) {
  const auto expected = compute_with(1);
  std::vector<std::vector<float>> results(3);
  {
    std::vector<std::jthread> callers;
    for (auto &result : results) {
      callers.emplace_back([&result] {
        // New pools again and again, often at the address of an old one.
        for (int i = 0; i < 5; ++i) result = compute_with(2);
      });
    }
  }
  for (const auto &result : results) EXPECT_EQ(result, expected);
}

TEST(ComputeThreads, GraphsThatCannotBeSplitRunBetweenOthers) {
  ComputeThreads threads(2);
  const auto expected = compute_with(1);
  const ggml_context_ptr context(
      ggml_init({.mem_size = 1 << 20, .mem_buffer = nullptr, .no_alloc = false}));
  ggml_tensor *x = ggml_set_f32(ggml_new_tensor_1d(context.get(), GGML_TYPE_F32, 8), 2);
  ggml_tensor *sum =
      ggml_sum(context.get(), ggml_reshape_2d(context.get(), x, 4, 2));  // one task only
  ggml_cgraph *small = ggml_new_graph(context.get());
  ggml_build_forward_expand(small, sum);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(threads.compute(small), GGML_STATUS_SUCCESS);
    EXPECT_EQ(ggml_get_f32_1d(sum, 0), 16);
    EXPECT_EQ(compute(threads), expected);
  }
}

TEST(ComputeThreads, LeaveTheCallingThreadWhereItWas) {
  const auto before = allowed_cpus();
  ComputeThreads threads(static_cast<uint32_t>(before.size()));
  EXPECT_EQ(allowed_cpus(), before);
  (void)compute(threads);
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(ComputeThreads, ComputeOnFewerCpusThanTheyAreMany) {
  const auto expected = compute_with(1);
  ComputeThreads made_before(2);
  const AffinityScope scope(std::array{allowed_cpus().front()});
  ComputeThreads made_inside(2);
  EXPECT_EQ(compute(made_before), expected);
  EXPECT_EQ(compute(made_inside), expected);
}

TEST(ComputeThreads, UseNoProcessorTimeBetweenGraphs) {
  ComputeThreads threads(2);
  (void)compute(threads);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu_seconds() - before, 0.05);
}

}  // namespace
}  // namespace patchbay
