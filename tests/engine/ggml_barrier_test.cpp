#include "engine/ggml_barrier.h"

#include <gtest/gtest.h>

#include <vector>

#include "engine/chain_graph.h"
#include "engine/threadpool_ptr.h"

namespace patchbay {
namespace {

constexpr int k_n_products = 40;

threadpool_ptr two_threads() {
  ggml_threadpool_params params = ggml_threadpool_params_default(2);
  params.poll = 0;
  return threadpool_ptr(ggml_threadpool_new(&params));
}

std::vector<float> compute(ggml_threadpool *pool) {
  const Chain chain(k_n_products);
  ggml_cplan plan = ggml_graph_plan(chain.graph(), 2, pool);
  std::vector<uint8_t> work(plan.work_size);
  plan.work_data = work.data();
  EXPECT_EQ(ggml_graph_compute(chain.graph(), &plan), GGML_STATUS_SUCCESS);
  return chain.result();
}

TEST(GgmlBarrier, IsOurs) { EXPECT_TRUE(ggml_uses_our_barrier()); }

TEST(PoolBarrier, IsWhereThePoolMeetsAfterEveryNode) {
  const threadpool_ptr foreign = two_threads();
  std::unique_ptr<PoolBarrier> barrier;
  const threadpool_ptr pool = two_threads();
  barrier = std::make_unique<PoolBarrier>(pool.get());
  barrier->set_n_threads(2);
  const auto expected = compute(foreign.get());
  EXPECT_EQ(barrier->n_rounds(), 0U);
  EXPECT_EQ(compute(pool.get()), expected);
  EXPECT_GE(barrier->n_rounds(), static_cast<uint32_t>(k_n_products));
}

TEST(PoolBarrier, MayTakeOverBetweenTwoGraphs) {
  std::unique_ptr<PoolBarrier> barrier;
  const threadpool_ptr pool = two_threads();
  const auto with_ggmls = compute(pool.get());
  barrier = std::make_unique<PoolBarrier>(pool.get());
  barrier->set_n_threads(2);
  EXPECT_EQ(compute(pool.get()), with_ggmls);
  EXPECT_GE(barrier->n_rounds(), static_cast<uint32_t>(k_n_products));
}

}  // namespace
}  // namespace patchbay
