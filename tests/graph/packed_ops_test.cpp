#include "graph/packed_ops.h"

#include <gmock/gmock.h>

#include <array>
#include <latch>
#include <string>
#include <thread>

#include "graph/packed_rows.h"

namespace patchbay {
namespace {

using testing::ElementsAre;

/// Calls an operation as ggml does: by all threads of the step at once.
void compute(ggml_custom_op_t op, ggml_tensor *dst, int n_threads, void *data = nullptr) {
  std::latch all(n_threads);
  std::vector<std::jthread> threads;
  for (int i_thread = 0; i_thread < n_threads; ++i_thread) {
    threads.emplace_back([&, i_thread] {
      all.arrive_and_wait();
      op(dst, i_thread, n_threads, data);
    });
  }
}

template <class T>
std::vector<T> numbers_of(const ggml_tensor *tensor) {
  const auto *data = static_cast<const T *>(tensor->data);
  return {data, data + ggml_nelements(tensor)};
}

void fill(ggml_tensor *tensor, const auto &numbers) {
  ASSERT_EQ(numbers.size() * sizeof numbers[0], ggml_nbytes(tensor));
  std::memcpy(tensor->data, numbers.data(), ggml_nbytes(tensor));
}

class PackedOps : public testing::Test {
 protected:
  PackedOps() { (void)ggml_backend_cpu_reg(); }  // fills the tables that rounding reads

  ggml_tensor *input(int64_t n_in, int64_t n_used, int64_t n_rows) {
    ggml_tensor *x = ggml_new_tensor_3d(context(), GGML_TYPE_F32, n_in, n_used, n_rows);
    fill(x, normal_numbers(ggml_nelements(x), 2));
    return x;
  }

  ggml_tensor *result(ggml_type type, const std::array<int64_t, 3> &ne,
                      std::array<ggml_tensor *, 2> sources) {
    ggml_tensor *dst = ggml_new_tensor(context(), type, 3, ne.data());
    std::memset(dst->data, 0xAA, ggml_nbytes(dst));
    std::ranges::copy(sources, dst->src);
    return dst;
  }

  /// The order of `experts` [n_used, n_rows].
  ggml_tensor *order_of(const std::vector<int32_t> &experts, int64_t n_used, int64_t n_expert,
                        int n_threads) {
    const auto n_pairs = static_cast<int64_t>(experts.size());
    ggml_tensor *ids = ggml_new_tensor_2d(context(), GGML_TYPE_I32, n_used, n_pairs / n_used);
    fill(ids, experts);
    ggml_tensor *order = result(GGML_TYPE_I32, {expert_order_size(n_expert, n_pairs), 1, 1}, {ids});
    compute(sort_by_expert, order, n_threads);
    return order;
  }

  [[nodiscard]] ggml_context *context() { return context_.get(); }

 private:
  ggml_context_ptr context_ = data_context();
};

TEST_F(PackedOps, PairsAreSortedByExpertAndExpertsWithoutOneAreLeftOut) {
  // Rows of two: (2, 0), (2, 3), (0, 2).
  const auto order = numbers_of<int32_t>(order_of({2, 0, 2, 3, 0, 2}, 2, 5, 1));
  const auto part = [&](int64_t first, int64_t n) {
    return std::vector(order.begin() + first, order.begin() + first + n);
  };
  EXPECT_EQ(order[0], 3);
  EXPECT_THAT(part(1, 3), ElementsAre(0, 2, 3));
  EXPECT_THAT(part(6, 4), ElementsAre(0, 2, 5, 6));
  EXPECT_THAT(part(12, 6), ElementsAre(1, 4, 0, 2, 5, 3));
}

TEST_F(PackedOps, OrderIsThatOfOneThreadWhenAllThreadsOfTheStepCome) {
  std::vector<int32_t> experts;
  for (int32_t i = 0; i < 40000; ++i) experts.push_back(i % 7);
  const auto wanted = numbers_of<int32_t>(order_of(experts, 2, 8, 1));
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(numbers_of<int32_t>(order_of(experts, 2, 8, 4)), wanted) << "time " << i;
}

class PackedOpsOf : public PackedOps, public testing::WithParamInterface<ggml_type> {
 protected:
  static constexpr int64_t k_n_in = 512;
};

TEST_P(PackedOpsOf, AnyNumberOfThreadsGivesTheSameBits) {
  constexpr int64_t k_n_rows = 21;
  const PackedRows first(GetParam(), k_n_in, 150, 1, 1);
  const PackedRows second(GetParam(), k_n_in, 35, 1, 2);
  InputForm form = layout_of(first.packed().format).input;
  ggml_tensor *x = input(k_n_in, k_n_rows, 1);
  std::vector<float> wanted;
  for (const int n_threads : {1, 2, 3, 4}) {
    ggml_tensor *panels = result(GGML_TYPE_I8, {panel_token_bytes(form, k_n_in), k_n_rows, 1}, {x});
    compute(quantise_input, panels, n_threads, &form);
    ggml_tensor *y = result(GGML_TYPE_F32, {185, k_n_rows, 1}, {panels});
    PackedProduct product({{&first.packed(), 0}, {&second.packed(), 150}}, 1);
    compute(multiply_packed, y, n_threads, &product);
    if (wanted.empty()) wanted = numbers_of<float>(y);
    EXPECT_EQ(numbers_of<float>(y), wanted) << n_threads << " threads";
  }
}

TEST_P(PackedOpsOf, AnyNumberOfThreadsGivesTheSameBitsOfExperts) {
  constexpr int64_t k_n_pairs = 46;
  const PackedRows weight(GetParam(), k_n_in, 37, 5);
  InputForm form = layout_of(weight.packed().format).input;
  std::vector<int32_t> experts;  // most by expert 1, none by expert 3
  for (int32_t i = 0; i < k_n_pairs; ++i) experts.push_back(i % 2 == 0 ? 1 : i % 6 == 3 ? 4 : 0);
  ggml_tensor *x = input(k_n_in, 2, k_n_pairs / 2);
  std::vector<float> wanted;
  for (const int n_threads : {1, 2, 3, 4}) {
    ggml_tensor *order = order_of(experts, 2, 5, n_threads);
    ggml_tensor *panels =
        result(GGML_TYPE_I8, {panel_token_bytes(form, k_n_in), k_n_pairs, 1}, {x, order});
    compute(quantise_experts_input, panels, n_threads, &form);
    ggml_tensor *y = result(GGML_TYPE_F32, {37, 2, k_n_pairs / 2}, {panels, order});
    PackedProduct product({{&weight.packed(), 0}}, 1);
    compute(multiply_packed_experts, y, n_threads, &product);
    if (wanted.empty()) wanted = numbers_of<float>(y);
    EXPECT_EQ(numbers_of<float>(y), wanted) << n_threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, PackedOpsOf, testing::ValuesIn(packable_types()),
                         [](const auto &each) { return std::string(ggml_type_name(each.param)); });

}  // namespace
}  // namespace patchbay
