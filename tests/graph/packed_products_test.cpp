#include "graph/packed_products.h"

#include <gtest/gtest.h>

#include <string>

#include "graph/packed_rows.h"

namespace patchbay {
namespace {

/// Both sum in F32, but not in the same order.
constexpr double k_tolerance = 1e-6;

constexpr int64_t k_n_in = 512;

std::vector<float> compute(ggml_context *context, ggml_tensor *y, int n_threads) {
  ggml_cgraph *graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, y);
  EXPECT_EQ(ggml_graph_compute_with_ctx(context, graph, n_threads), GGML_STATUS_SUCCESS);
  const float *data = ggml_get_data_f32(y);
  return {data, data + ggml_nelements(y)};
}

/// x [n_in, ne1, ne2] with the first numbers of a fixed sequence; its rows lie `gap` numbers apart.
ggml_tensor *input(ggml_context *context, int64_t ne1, int64_t ne2 = 1, int64_t gap = 0) {
  ggml_tensor *whole = ggml_new_tensor_3d(context, GGML_TYPE_F32, k_n_in + gap, ne1, ne2);
  ggml_set_f32(whole, NAN);  // nobody may read the gaps
  const auto numbers = normal_numbers(k_n_in * ne1 * ne2, 2);
  for (int64_t row = 0; row < ne1 * ne2; ++row) {
    std::memcpy(ggml_get_data_f32(whole) + row * whole->ne[0], numbers.data() + row * k_n_in,
                static_cast<size_t>(k_n_in) * sizeof(float));
  }
  return ggml_view_3d(context, whole, k_n_in, ne1, ne2, whole->nb[1], whole->nb[2], 0);
}

std::vector<float> rows_of(const std::vector<float> &y, int64_t n_out, int64_t n_rows) {
  return {y.begin(), y.begin() + n_out * n_rows};
}

using Weights = std::vector<const PackedRows *>;

int64_t n_out_of(const Weights &weights) {
  int64_t n_out = 0;
  for (const auto *weight : weights) n_out += weight->packed().n_out;
  return n_out;
}

std::vector<float> ours(const Weights &weights, int64_t n_rows, int n_threads, int64_t gap = 0) {
  const auto context = data_context();
  PackedProducts products;
  std::vector<const PackedWeight *> packed;
  for (const auto *weight : weights) packed.push_back(&weight->packed());
  ggml_tensor *x = input(context.get(), n_rows, 1, gap);
  return compute(context.get(), products.multiply(context.get(), packed, x).y, n_threads);
}

/// The same by ggml's products of each weight.
std::vector<float> ggmls(const Weights &weights, int64_t n_rows) {
  const auto context = data_context();
  ggml_tensor *x = input(context.get(), n_rows);
  ggml_tensor *y = nullptr;
  for (const auto *weight : weights) {
    ggml_tensor *part = ggml_mul_mat(context.get(), weight->tensor(context.get()), x);
    y = y == nullptr ? part : ggml_concat(context.get(), y, part, 0);
  }
  return compute(context.get(), y, 1);
}

/// More threads than processors wait for each other's time slices: not at every number of rows.
std::vector<int> thread_counts(int64_t n_rows) {
  return n_rows == 17 ? std::vector{1, 2, 3, 4} : std::vector{1, 2};
}

class PackedProductsOf : public testing::TestWithParam<ggml_type> {};

TEST_P(PackedProductsOf, SeveralWeightsGiveWhatGgmlGivesWithBitsThatDependOnTheTokenAlone) {
  const PackedRows first(GetParam(), k_n_in, 37, 1, 3);
  const PackedRows second(GetParam(), k_n_in, 16, 1, 4);
  const PackedRows third(GetParam(), k_n_in, 75, 1, 5);
  const Weights weights{&first, &second, &third};
  const auto wanted = ggmls(weights, 64);
  const auto all = ours(weights, 64, 1);
  EXPECT_LT(relative_rms(all, wanted), k_tolerance);
  for (const int64_t n_rows : {1, 2, 7, 16, 17, 64}) {
    for (const int n_threads : thread_counts(n_rows)) {
      EXPECT_EQ(ours(weights, n_rows, n_threads), rows_of(all, n_out_of(weights), n_rows))
          << n_rows << " rows, " << n_threads << " threads";
    }
  }
}

TEST_P(PackedProductsOf, InputRowsMayLieApart) {
  const PackedRows weight(GetParam(), k_n_in, 40);
  EXPECT_EQ(ours({&weight}, 19, 2, 24), ours({&weight}, 19, 1));
}

/// Experts [n_used, n_rows] of each row, in the first columns of [n_expert, n_rows], as the choice
/// of the largest leaves them.
ggml_tensor *chosen(ggml_context *context, const std::vector<int32_t> &experts, int64_t n_used,
                    int64_t n_expert) {
  const auto n_rows = static_cast<int64_t>(experts.size()) / n_used;
  ggml_tensor *all = ggml_new_tensor_2d(context, GGML_TYPE_I32, n_expert, n_rows);
  std::memset(all->data, 0x7F, ggml_nbytes(all));  // nobody may read the others
  for (int64_t i = 0; i < n_rows * n_used; ++i) {
    static_cast<int32_t *>(all->data)[i / n_used * n_expert + i % n_used] =
        experts[static_cast<size_t>(i)];
  }
  return ggml_view_2d(context, all, n_used, n_rows, all->nb[1], 0);
}

struct ExpertsCase {
  std::vector<int32_t> experts;  // [k_n_used, n_rows]
  bool shared_input = false;     // one input for all experts of a row

  static constexpr int64_t k_n_used = 2;
  [[nodiscard]] int64_t n_rows() const { return static_cast<int64_t>(experts.size()) / k_n_used; }
  [[nodiscard]] ggml_tensor *input_in(ggml_context *context) const {
    return input(context, shared_input ? 1 : k_n_used, n_rows());
  }
};

std::vector<float> ours(const PackedRows &weight, const ExpertsCase &c, int n_threads) {
  const auto context = data_context();
  PackedProducts products;
  ggml_tensor *experts = chosen(context.get(), c.experts, c.k_n_used, weight.packed().n_expert);
  return compute(
      context.get(),
      products.multiply_experts(context.get(), weight.packed(), c.input_in(context.get()), experts),
      n_threads);
}

std::vector<float> ggmls(const PackedRows &weight, const ExpertsCase &c) {
  const auto context = data_context();
  return compute(
      context.get(),
      ggml_mul_mat_id(context.get(), weight.tensor(context.get()), c.input_in(context.get()),
                      chosen(context.get(), c.experts, c.k_n_used, weight.packed().n_expert)),
      1);
}

/// Experts of 64 rows: 1 and 4 get none, 3 gets every row, the others some.
std::vector<int32_t> uneven_experts() {
  std::vector<int32_t> experts;
  for (int32_t row = 0; row < 64; ++row) {
    const int32_t other = row % 5 == 0 ? 2 : 0;
    experts.push_back(row % 3 == 0 ? 3 : other);
    experts.push_back(row % 3 == 0 ? other : 3);
  }
  return experts;
}

TEST_P(PackedProductsOf, ExpertsGiveWhatGgmlGivesWithBitsThatDependOnTheTokenAlone) {
  const PackedRows weight(GetParam(), k_n_in, 37, 5);
  for (const bool shared_input : {false, true}) {
    const ExpertsCase whole{uneven_experts(), shared_input};
    const auto all = ours(weight, whole, 1);
    EXPECT_LT(relative_rms(all, ggmls(weight, whole)), k_tolerance);
    for (const int64_t n_rows : {1, 2, 7, 16, 17, 64}) {
      ExpertsCase part = whole;
      part.experts.resize(static_cast<size_t>(n_rows * part.k_n_used));
      for (const int n_threads : thread_counts(n_rows)) {
        EXPECT_EQ(ours(weight, part, n_threads), rows_of(all, 37 * part.k_n_used, n_rows))
            << n_rows << " rows, " << n_threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, PackedProductsOf, testing::ValuesIn(packable_types()),
                         [](const auto &each) { return std::string(ggml_type_name(each.param)); });

TEST(PackedProducts, OfALongPromptGiveWhatGgmlGives) {
  const PackedRows weight(GGML_TYPE_Q4_K, k_n_in, 200);
  const auto all = ours({&weight}, 512, 2);
  EXPECT_LT(relative_rms(all, ggmls({&weight}, 512)), k_tolerance);
  EXPECT_EQ(ours({&weight}, 1, 1), rows_of(all, 200, 1));
}

TEST(PackedProducts, WeightsOfOtherFormatsShareAProductWhereTheyReadTheSameInput) {
  const PackedRows first(GGML_TYPE_Q4_K, k_n_in, 37);
  const PackedRows second(GGML_TYPE_Q6_K, k_n_in, 20);
  const PackedRows third(GGML_TYPE_Q5_K, k_n_in, 33);
  const Weights weights{&first, &second, &third};
  EXPECT_LT(relative_rms(ours(weights, 9, 2), ggmls(weights, 9)), k_tolerance);
}

TEST(PackedProducts, QuantiseAnInputOnceForAllThatTakeItInOneForm) {
  const auto context = data_context();
  PackedProducts products;
  const auto panels_of = [&](const PackedRows &weight, ggml_tensor *x) {
    const PackedWeight *one = &weight.packed();
    return products.multiply(context.get(), std::span(&one, 1), x).y->src[0];
  };
  const PackedRows q4_k(GGML_TYPE_Q4_K, k_n_in, 16);
  const PackedRows q6_k(GGML_TYPE_Q6_K, k_n_in, 16);
  const PackedRows q8_0(GGML_TYPE_Q8_0, k_n_in, 16);
  ggml_tensor *x = input(context.get(), 3);
  EXPECT_EQ(panels_of(q4_k, x), panels_of(q6_k, x));
  EXPECT_NE(panels_of(q4_k, x), panels_of(q8_0, x));
  EXPECT_NE(panels_of(q4_k, x), panels_of(q4_k, input(context.get(), 3)));
}

TEST(PackedProducts, AnInputMayGoToExpertsOfTwoChoicesAndToAllRows) {
  const PackedRows weight(GGML_TYPE_Q8_0, k_n_in, 20, 3);
  const PackedRows dense(GGML_TYPE_Q8_0, k_n_in, 20);
  const auto context = data_context();
  PackedProducts products;
  // One row, so that its two inputs are a matrix too.
  ggml_tensor *x = input(context.get(), 2, 1);
  std::vector<ggml_tensor *> results;
  std::vector<ggml_tensor *> wanted;
  const auto put = [&](ggml_tensor *y, ggml_tensor *by_ggml) {
    results.push_back(ggml_reshape_1d(context.get(), y, ggml_nelements(y)));
    wanted.push_back(ggml_reshape_1d(context.get(), by_ggml, ggml_nelements(by_ggml)));
  };
  for (const std::vector<int32_t> &experts : {std::vector{2, 0}, {0, 1}}) {
    ggml_tensor *ids = chosen(context.get(), experts, 2, 3);
    put(products.multiply_experts(context.get(), weight.packed(), x, ids),
        ggml_mul_mat_id(context.get(), weight.tensor(context.get()), x, ids));
  }
  const PackedWeight *one = &dense.packed();
  put(products.multiply(context.get(), std::span(&one, 1), x).y,
      ggml_mul_mat(context.get(), dense.tensor(context.get()), x));
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_LT(
        relative_rms(compute(context.get(), results[i], 1), compute(context.get(), wanted[i], 1)),
        k_tolerance)
        << "product " << i;
  }
}

TEST(PackedProducts, AGraphRunsAgainWithOtherInputs) {
  const PackedRows weight(GGML_TYPE_Q4_0, k_n_in, 300);
  const auto context = data_context();
  PackedProducts products;
  const PackedWeight *one = &weight.packed();
  ggml_tensor *x = input(context.get(), 5);
  ggml_tensor *y = products.multiply(context.get(), std::span(&one, 1), x).y;
  for (const int n_threads : {2, 1, 3, 2}) {
    EXPECT_EQ(compute(context.get(), y, n_threads), ours({&weight}, 5, 1));
    ggml_set_zero(y);
  }
  ggml_set_zero(x);
  EXPECT_EQ(compute(context.get(), y, 2), std::vector<float>(1500, 0.0F));
}

}  // namespace
}  // namespace patchbay
