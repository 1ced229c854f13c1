#include "lora/peft_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t k_n_expert = 3;
constexpr int64_t k_n_rank = 2;

/// Pairs of single experts: A [n_rank, n_in], B [n_out, n_rank], seeds apart.
struct SinglePairs {
  std::vector<Matrix> a;
  std::vector<Matrix> b;
};

SinglePairs single_pairs(int64_t n_in, int64_t n_out, int seed) {
  SinglePairs pairs;
  for (int e = 0; e < k_n_expert; ++e) {
    pairs.a.push_back(numbered(k_n_rank, n_in, seed + 10 * e));
    pairs.b.push_back(numbered(n_out, k_n_rank, seed + 10 * e + 5));
  }
  return pairs;
}

Matrix empty(int64_t n_rows, int64_t n_columns) {
  return {n_rows, n_columns, std::vector<float>(static_cast<size_t>(n_rows * n_columns))};
}

/// The layout of PEFT since 0.19.1: row e r + k of A, column k E + e of B.
std::pair<Matrix, Matrix> fused(const SinglePairs &pairs) {
  Matrix a = empty(k_n_expert * k_n_rank, pairs.a[0].n_columns);
  Matrix b = empty(pairs.b[0].n_rows, k_n_rank * k_n_expert);
  for (int64_t e = 0; e < k_n_expert; ++e) {
    for (int64_t k = 0; k < k_n_rank; ++k) {
      const auto i = static_cast<size_t>(e);
      for (int64_t c = 0; c < a.n_columns; ++c) a.at(e * k_n_rank + k, c) = pairs.a[i].at(k, c);
      for (int64_t o = 0; o < b.n_rows; ++o) b.at(o, k * k_n_expert + e) = pairs.b[i].at(o, k);
    }
  }
  return {a, b};
}

/// The layout before 0.19.1: the same with (B_e A_e)^T = A_e^T B_e^T.
std::pair<Matrix, Matrix> swapped(const SinglePairs &pairs) {
  SinglePairs turned;
  for (size_t e = 0; e < pairs.a.size(); ++e) {
    Matrix a = empty(k_n_rank, pairs.b[e].n_rows);
    Matrix b = empty(pairs.a[e].n_columns, k_n_rank);
    for (int64_t k = 0; k < k_n_rank; ++k) {
      for (int64_t o = 0; o < a.n_columns; ++o) a.at(k, o) = pairs.b[e].at(o, k);
      for (int64_t i = 0; i < b.n_rows; ++i) b.at(i, k) = pairs.a[e].at(k, i);
    }
    turned.a.push_back(a);
    turned.b.push_back(b);
  }
  return fused(turned);
}

Matrix rows(const Matrix &matrix, int64_t first, int64_t n) {
  const auto begin = matrix.values.begin() + static_cast<ptrdiff_t>(first * matrix.n_columns);
  return {n, matrix.n_columns, {begin, begin + static_cast<ptrdiff_t>(n * matrix.n_columns)}};
}

constexpr auto k_experts = "model.layers.1.mlp.experts";

PeftBuilder fused_folder(const std::pair<Matrix, Matrix> &gate_up,
                         const std::pair<Matrix, Matrix> &down) {
  PeftBuilder builder;
  builder.config["target_parameters"] = {"experts.down_proj", "experts.gate_up_proj"};
  builder.pair(std::string(k_experts) + ".base_layer", gate_up.first, gate_up.second);
  builder.pair(k_experts, down.first, down.second);
  return builder;
}

PeftBuilder single_folder(const SinglePairs &gate_up, const SinglePairs &down, int64_t n_ff) {
  PeftBuilder builder;
  for (size_t e = 0; e < gate_up.a.size(); ++e) {
    const auto expert = "model.layers.1.block_sparse_moe.experts." + std::to_string(e) + ".";
    builder.pair(expert + "w1", gate_up.a[e], rows(gate_up.b[e], 0, n_ff));
    builder.pair(expert + "w3", gate_up.a[e], rows(gate_up.b[e], n_ff, n_ff));
    builder.pair(expert + "w2", down.a[e], down.b[e]);
  }
  return builder;
}

/// scale B A of every expert must be what the single pairs say; the folders state alpha 4 and
/// rank 2.
void expect_deltas(const Adapter &adapter, const SinglePairs &gate_up, const SinglePairs &down,
                   int64_t n_ff) {
  ASSERT_EQ(adapter.pairs.size(), 3U);
  for (int64_t e = 0; e < k_n_expert; ++e) {
    const auto i = static_cast<size_t>(e);
    const Matrix both = product(gate_up.b[i], gate_up.a[i], 2);
    EXPECT_EQ(delta(*adapter.find("blk.1.ffn_gate_exps.weight"), e).values,
              rows(both, 0, n_ff).values);
    EXPECT_EQ(delta(*adapter.find("blk.1.ffn_up_exps.weight"), e).values,
              rows(both, n_ff, n_ff).values);
    EXPECT_EQ(delta(*adapter.find("blk.1.ffn_down_exps.weight"), e).values,
              product(down.b[i], down.a[i], 2).values);
  }
}

TEST(PeftExperts, AllLayoutsAreOneAdapter) {
  const auto gate_up = single_pairs(8, 24, 1);
  const auto down = single_pairs(12, 8, 2);
  expect_deltas(*fused_folder(fused(gate_up), fused(down)).load(expert_base()), gate_up, down, 12);
  auto old = fused_folder(swapped(gate_up), swapped(down));
  old.config.erase("peft_version");
  expect_deltas(*old.load(expert_base()), gate_up, down, 12);
  expect_deltas(*single_folder(gate_up, down, 12).load(expert_base()), gate_up, down, 12);
}

TEST(PeftExperts, SquareWeightsAreDecidedByTheVersion) {
  const auto gate_up = single_pairs(8, 8, 1);  // n_ff 4: gate and up together are square
  const auto down = single_pairs(4, 8, 2);
  for (const auto *version : {"0.19.1", "0.21.2", "1.0.0"}) {
    auto builder = fused_folder(fused(gate_up), fused(down));
    builder.config["peft_version"] = version;
    expect_deltas(*builder.load(expert_base(4)), gate_up, down, 4);
  }
  for (const auto *version : {"0.17.0", "0.18.1", "0.19.0"}) {
    auto builder = fused_folder(swapped(gate_up), swapped(down));
    builder.config["peft_version"] = version;
    expect_deltas(*builder.load(expert_base(4)), gate_up, down, 4);
  }
  auto undecided = fused_folder(fused(gate_up), fused(down));
  undecided.config.erase("peft_version");
  EXPECT_THAT(load_failure([&] { (void)undecided.load(expert_base(4)); }),
              AllOf(HasSubstr("is square"), HasSubstr("peft_version")));
}

TEST(PeftExperts, OneTargetedParameterStandsOutermost) {
  const auto down = single_pairs(12, 8, 2);
  const auto [a, b] = fused(down);
  PeftBuilder builder;
  builder.config["target_parameters"] = {"mlp.experts.down_proj"};
  builder.pair(k_experts, a, b);
  EXPECT_EQ(builder.load(expert_base())->pairs[0].target, "blk.1.ffn_down_exps.weight");
  builder.config["target_parameters"] = {"model.layers.0.mlp.experts.down_proj"};
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              HasSubstr("cannot be told apart"));
  builder.config.erase("target_parameters");
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              HasSubstr("cannot be told apart"));
}

TEST(PeftExperts, NestingMustMatchTheTargets) {
  const auto [a, b] = fused(single_pairs(12, 8, 2));
  PeftBuilder builder;
  builder.config["target_parameters"] = {"experts.gate_up_proj", "experts.down_proj"};
  builder.pair(k_experts, a, b);
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              AllOf(HasSubstr("want 2 pairs"), HasSubstr("found 1")));
  builder.pair(std::string(k_experts) + ".base_layer.base_layer", a, b);
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              HasSubstr("cannot be told apart"));
}

TEST(PeftExperts, PatternsKnowTheParameterByItsName) {
  const auto down = single_pairs(12, 8, 2);
  const auto [a, b] = fused(down);
  PeftBuilder builder;
  builder.config["target_parameters"] = {"experts.down_proj"};
  builder.config["r"] = 16;
  builder.config["rank_pattern"] = {{"experts", 7}, {"experts.down_proj", 2}};
  builder.config["alpha_pattern"] = {{"mlp.experts", 100}, {"down_proj", 6}};
  builder.pair(k_experts, a, b);
  EXPECT_EQ(builder.load(expert_base())->pairs[0].scale, 3);
  builder.config["use_rslora"] = true;
  EXPECT_FLOAT_EQ(builder.load(expert_base())->pairs[0].scale, 6 / std::sqrt(2.0F));
  builder.config["rank_pattern"] = {{"experts", 2}};
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              AllOf(HasSubstr("another rank"), HasSubstr("want 16, found 2")));
}

TEST(PeftExperts, MissingExpertsAndSmallerRanksAreZeros) {
  PeftBuilder builder;
  builder.config["rank_pattern"] = {{"2.w2", 1}};
  builder.config["alpha_pattern"] = {{"2.w2", 5}};
  const auto name = [](int e) {
    return "model.layers.0.block_sparse_moe.experts." + std::to_string(e) + ".w2";
  };
  const Matrix a0 = numbered(2, 12, 1);
  const Matrix b0 = numbered(8, 2, 2);
  const Matrix a2 = numbered(1, 12, 3);
  const Matrix b2 = numbered(8, 1, 4);
  const auto adapter = builder.pair(name(0), a0, b0).pair(name(2), a2, b2).load(expert_base());
  const auto *pair = adapter->find("blk.0.ffn_down_exps.weight");
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(pair->n_rank, 2);
  EXPECT_EQ(pair->scale, 1);
  EXPECT_EQ(delta(*pair, 0).values, product(b0, a0, 2).values);
  EXPECT_EQ(delta(*pair, 1).values, empty(8, 12).values);
  EXPECT_EQ(delta(*pair, 2).values, product(b2, a2, 5).values);
}

TEST(PeftExperts, EqualScalesAndTypesAreStackedAsTheyAre) {
  PeftBuilder builder;
  for (int e = 0; e < 3; ++e) {
    const auto name =
        "base_model.model.model.layers.0.mlp.experts." + std::to_string(e) + ".up_proj";
    builder.tensors.set_bf16(name + ".lora_A.weight", numbered(2, 8, e));
    builder.tensors.set_f16(name + ".lora_B.weight", numbered(12, 2, e + 1));
  }
  const auto adapter = builder.load(expert_base());
  const auto &pair = adapter->pairs[0];
  EXPECT_EQ(pair.a.type, GGML_TYPE_BF16);
  EXPECT_EQ(pair.b.type, GGML_TYPE_F16);
  EXPECT_EQ(pair.scale, 2);
  EXPECT_EQ(delta(pair, 1).values, product(numbered(12, 2, 2), numbered(2, 8, 1), 2).values);
}

TEST(PeftExperts, MixedTypesBecomeF32) {
  PeftBuilder builder;
  builder.pair("model.layers.0.mlp.experts.0.up_proj", 8, 12);
  const std::string name = "base_model.model.model.layers.0.mlp.experts.1.up_proj";
  builder.tensors.set_f16(name + ".lora_A.weight", numbered(2, 8, 3));
  builder.tensors.set_bf16(name + ".lora_B.weight", numbered(12, 2, 4));
  const auto adapter = builder.load(expert_base());
  EXPECT_EQ(adapter->pairs[0].a.type, GGML_TYPE_F32);
  EXPECT_EQ(adapter->pairs[0].scale, 2);
  EXPECT_EQ(delta(adapter->pairs[0], 1).values,
            product(numbered(12, 2, 4), numbered(2, 8, 3), 2).values);
}

TEST(PeftExperts, FoldingAScaleMustNotOverflow) {
  PeftBuilder builder;
  builder.config["alpha_pattern"] = {{"1.up_proj", 1e30}};
  const auto huge = [](int64_t n_rows, int64_t n_columns) {
    return Matrix{n_rows, n_columns,
                  std::vector<float>(static_cast<size_t>(n_rows * n_columns), 1e30F)};
  };
  for (const auto *e : {"0", "1"}) {
    builder.pair(std::string("model.layers.0.mlp.experts.") + e + ".up_proj", numbered(2, 8),
                 huge(12, 2));
  }
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              AllOf(HasSubstr("blk.0.ffn_up_exps.weight"), HasSubstr("overflows F32")));
}

TEST(PeftExperts, ShapesOfFusedFactorsMustFit) {
  const auto failure = [](int64_t a_rows, int64_t a_columns, int64_t b_rows, int64_t b_columns) {
    PeftBuilder builder;
    builder.config["target_parameters"] = {"experts.down_proj"};
    builder.pair(k_experts, numbered(a_rows, a_columns), numbered(b_rows, b_columns));
    return load_failure([&] { (void)builder.load(expert_base()); });
  };
  EXPECT_THAT(failure(6, 13, 8, 6), HasSubstr("has incorrect shape"));
  EXPECT_THAT(failure(6, 12, 9, 6), HasSubstr("has incorrect shape"));
  EXPECT_THAT(failure(6, 12, 8, 9), HasSubstr("multiple of 3 experts"));
  EXPECT_THAT(failure(7, 12, 8, 7), HasSubstr("multiple of 3 experts"));
  EXPECT_THAT(failure(2, 12, 8, 2), HasSubstr("multiple of 3 experts"));
  EXPECT_THAT(failure(9, 12, 8, 9), HasSubstr("another rank"));
}

TEST(PeftExperts, ExpertsThatTheBaseDoesNotHaveAreRefused) {
  PeftBuilder builder;
  builder.pair("model.layers.0.block_sparse_moe.experts.3.w2", 12, 8);
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }),
              AllOf(HasSubstr("experts.3.w2"), HasSubstr("want below 3, found 3")));
  EXPECT_THAT(load_failure([&] { (void)builder.load(dense_base()); }), HasSubstr("no partner"));
}

TEST(PeftExperts, TwoModulesForOneWeightAreRefused) {
  const auto down = single_pairs(12, 8, 2);
  const auto [a, b] = fused(down);
  PeftBuilder builder;
  builder.config["target_parameters"] = {"experts.down_proj"};
  builder.pair("model.layers.0.mlp.experts", a, b);
  builder.pair("model.layers.0.block_sparse_moe.experts.1.w2", 12, 8);
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }), HasSubstr("both adapt"));
  PeftBuilder spellings;
  spellings.pair("model.layers.0.mlp.experts.1.down_proj", 12, 8);
  spellings.pair("model.layers.0.block_sparse_moe.experts.1.w2", 12, 8);
  EXPECT_THAT(load_failure([&] { (void)spellings.load(expert_base()); }), HasSubstr("both adapt"));
}

TEST(PeftExperts, RoutersAreOrdinaryModulesInBothSpellings) {
  for (const auto *name : {"model.layers.0.block_sparse_moe.gate", "model.layers.0.mlp.gate"}) {
    PeftBuilder builder;
    builder.pair(name, 8, 3);
    EXPECT_EQ(builder.load(expert_base())->pairs[0].target, "blk.0.ffn_gate_inp.weight");
  }
}

TEST(PeftExperts, InvocationTokensOnExpertsAreRefused) {
  PeftBuilder builder;
  builder.config["alora_invocation_tokens"] = {5};
  builder.pair("model.layers.0.block_sparse_moe.experts.0.w2", 12, 8);
  EXPECT_THAT(load_failure([&] { (void)builder.load(expert_base()); }), HasSubstr("aLoRA"));
}

}  // namespace
}  // namespace patchbay
