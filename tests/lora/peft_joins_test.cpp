#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/load_failure.h"
#include "peft_builder.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char *k_attention = "model.layers.0.self_attn.";
constexpr const char *k_mlp = "model.layers.0.mlp.";
constexpr const char *k_prefix = "base_model.model.";

/// A base with q, k and v in one weight, and gate and up.
BaseInfo stacked_base(const std::string &arch = "llama") {
  BaseInfo base = dense_base(arch);
  std::erase_if(base.uses, [](const AdaptableUse &use) {
    return use.name.starts_with("blk.") && !use.name.ends_with("attn_output.weight") &&
           !use.name.ends_with("ffn_down.weight");
  });
  for (int il = 0; il < 2; ++il) {
    add_linear(base, layer_prefix(il) + "attn_qkv", 8, 16);
    add_linear(base, layer_prefix(il) + "ffn_up", 8, 24);
  }
  return base;
}

Matrix rows(const Matrix &matrix, int64_t first, int64_t n) {
  Matrix some{n, matrix.n_columns};
  for (int64_t i = first * matrix.n_columns; i < (first + n) * matrix.n_columns; ++i)
    some.values.push_back(matrix.values[static_cast<size_t>(i)]);
  return some;
}

/// Rows of heads of 4 in the order of llama-like files.
Matrix rotated(const Matrix &matrix) {
  Matrix all{matrix.n_rows, matrix.n_columns};
  for (int64_t head = 0; head < matrix.n_rows; head += 4) {
    for (const int64_t row : {0, 2, 1, 3}) {
      const auto one = rows(matrix, head + row, 1);
      all.values.insert(all.values.end(), one.values.begin(), one.values.end());
    }
  }
  return all;
}

Matrix whole_delta(const Matrix &b, const Matrix &a) { return product(b, a, 2); }  // alpha / r

void set_vector(PeftBuilder &builder, const std::string &name, const std::vector<float> &values) {
  std::string bytes;
  for (const float value : values) bytes += raw_bytes(value);
  builder.tensors.set(k_prefix + name, "F32", {static_cast<int64_t>(values.size())}, bytes);
}

std::vector<float> counted(size_t n, float first) {
  std::vector<float> values(n);
  for (float &value : values) value = first++;
  return values;
}

TEST(PeftJoins, AModuleOfQKAndVIsThreeWeightsHere) {
  const Matrix a = numbered(2, 8, 1);
  const Matrix b = numbered(16, 2, 2);
  PeftBuilder builder;
  builder.pair(std::string(k_attention) + "qkv_proj", a, b);
  const auto adapter = builder.load(dense_base());
  ASSERT_EQ(adapter->pairs.size(), 3U);
  const Matrix all = whole_delta(b, a);
  EXPECT_EQ(delta(*adapter->find("blk.0.attn_q.weight")).values, rotated(rows(all, 0, 8)).values);
  EXPECT_EQ(delta(*adapter->find("blk.0.attn_k.weight")).values, rotated(rows(all, 8, 4)).values);
  EXPECT_EQ(delta(*adapter->find("blk.0.attn_v.weight")).values, rows(all, 12, 4).values);
}

TEST(PeftJoins, LengthsAndBiasesAreDealtWithTheRows) {
  PeftBuilder builder;
  builder.config["use_dora"] = true;
  builder.pair(std::string(k_mlp) + "gate_up_proj", 8, 24);
  set_vector(builder, std::string(k_mlp) + "gate_up_proj.lora_magnitude_vector", counted(24, 1));
  const auto dora = builder.load(dense_base());
  EXPECT_EQ(numbers(dora->find("blk.0.ffn_gate.weight")->magnitude), counted(12, 1));
  EXPECT_EQ(numbers(dora->find("blk.0.ffn_up.weight")->magnitude), counted(12, 13));

  PeftBuilder with_bias;
  with_bias.config["lora_bias"] = true;
  with_bias.pair(std::string(k_attention) + "qkv_proj", 8, 16);
  set_vector(with_bias, std::string(k_attention) + "qkv_proj.lora_B.bias", counted(16, 0));
  const auto biased = with_bias.load(dense_base());
  EXPECT_EQ(numbers(biased->find("blk.0.attn_k.weight")->bias), (std::vector<float>{8, 10, 9, 11}));
  EXPECT_EQ(numbers(biased->find("blk.0.attn_v.weight")->bias), counted(4, 12));
}

TEST(PeftJoins, ModulesOfQKAndVAreOneWeightHere) {
  const std::string name = k_attention;
  for (const std::string arch : {"llama", "gemma3"}) {
    for (const bool scales_differ : {false, true}) {
      PeftBuilder builder;
      if (scales_differ) {
        builder.config["rank_pattern"] = {{"v_proj", 3}};
        builder.config["alpha_pattern"] = {{"v_proj", 12}};
      }
      const int64_t rank_v = scales_differ ? 3 : 2;
      const Matrix a_q = numbered(2, 8, 1);
      const Matrix b_q = numbered(8, 2, 2);
      const Matrix a_v = numbered(rank_v, 8, 3);
      const Matrix b_v = numbered(4, rank_v, 4);
      builder.pair(name + "q_proj", a_q, b_q).pair(name + "v_proj", a_v, b_v);
      const auto adapter = builder.load(stacked_base(arch));
      ASSERT_EQ(adapter->pairs.size(), 1U);
      const auto &pair = *adapter->find("blk.0.attn_qkv.weight");
      EXPECT_EQ(pair.n_rank, 2 + rank_v);
      const Matrix all = delta(pair);
      const Matrix q = whole_delta(b_q, a_q);
      EXPECT_EQ(rows(all, 0, 8).values, (arch == "llama" ? rotated(q) : q).values);
      EXPECT_EQ(rows(all, 8, 4).values, std::vector<float>(32));
      EXPECT_EQ(rows(all, 12, 4).values, product(b_v, a_v, scales_differ ? 4 : 2).values);
    }
  }
}

TEST(PeftJoins, GateAndUpAreOneWeightHereAlsoWhereItHasTheNameOfUp) {
  const Matrix a = numbered(2, 8, 1);
  const Matrix b = numbered(12, 2, 2);
  PeftBuilder builder;
  builder.pair(std::string(k_mlp) + "up_proj", a, b);
  const auto adapter = builder.load(stacked_base());
  const Matrix all = delta(*adapter->find("blk.0.ffn_up.weight"));
  EXPECT_EQ(rows(all, 0, 12).values, std::vector<float>(96));
  EXPECT_EQ(rows(all, 12, 12).values, whole_delta(b, a).values);
}

TEST(PeftJoins, BiasesTakeTheScaleThatIsFoldedIntoTheirPart) {
  PeftBuilder builder;
  builder.config["lora_bias"] = true;
  builder.config["alpha_pattern"] = {{"up_proj", 6}};
  for (const std::string part : {"gate_proj", "up_proj"}) {
    builder.pair(k_mlp + part, 8, 12);
    set_vector(builder, k_mlp + part + ".lora_B.bias", counted(12, 1));
  }
  const auto adapter = builder.load(stacked_base());
  const auto &pair = *adapter->find("blk.0.ffn_up.weight");
  ASSERT_EQ(pair.scale, 1);
  const auto bias = numbers(pair.bias);
  EXPECT_EQ(bias[3], 2 * 4);
  EXPECT_EQ(bias[12 + 3], 3 * 4);
}

TEST(PeftJoins, LengthsOfSomeRowsOnlyAreRefused) {
  PeftBuilder builder;
  builder.config["use_dora"] = true;
  for (const std::string part : {"gate_proj", "up_proj"}) {
    builder.pair(k_mlp + part, 8, 12);
    set_vector(builder, k_mlp + part + ".lora_magnitude_vector", counted(12, 1));
  }
  EXPECT_EQ(numbers(builder.load(stacked_base())->find("blk.0.ffn_up.weight")->magnitude)[12], 1);
  for (const std::string half : {".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"})
    builder.tensors.erase(std::string(k_prefix) + k_mlp + "gate_proj" + half);
  EXPECT_THAT(load_failure([&] { (void)builder.load(stacked_base()); }),
              AllOf(HasSubstr("model.layers.0.mlp.up_proj"), HasSubstr("for some rows of")));
}

TEST(PeftJoins, ShapesThatDoNotFitAreRefused) {
  PeftBuilder whole;
  whole.pair(std::string(k_attention) + "qkv_proj", 8, 20);
  EXPECT_THAT(load_failure([&] { (void)whole.load(dense_base()); }),
              AllOf(HasSubstr("incorrect shape"), HasSubstr("lora_B [16, r]")));
  PeftBuilder part;
  part.pair(std::string(k_attention) + "k_proj", 8, 8);
  EXPECT_THAT(load_failure([&] { (void)part.load(stacked_base()); }),
              AllOf(HasSubstr("incorrect shape"), HasSubstr("lora_B [4, r]")));
  PeftBuilder both;
  both.pair(std::string(k_attention) + "q_proj", 8, 8);
  both.pair(std::string(k_attention) + "qkv_proj", 8, 16);
  EXPECT_THAT(load_failure([&] { (void)both.load(dense_base()); }), HasSubstr("both adapt"));
}

}  // namespace
}  // namespace patchbay
