#include "lora/gguf_adapter_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/temp_dir.h"
#include "gguf/gguf_file.h"
#include "lora/factor_ops.h"
#include "lora/gguf_adapter.h"
#include "lora/scale_folding.h"
#include "lora/small_bases.h"

namespace patchbay {
namespace {

Factor ramp(std::array<int64_t, 3> ne, float step = 0.25F) {
  std::vector<float> values;
  for (int64_t i = 0; i < ne[0] * ne[1] * ne[2]; ++i) {
    values.push_back(step * static_cast<float>(i % 11 - 5));
  }
  return make_factor(ne, std::move(values));
}

FactorPair q_pair(int il, float scale, int64_t n_rank = 2) {
  return {.target = "blk." + std::to_string(il) + ".attn_q.weight",
          .n_rank = n_rank,
          .scale = scale,
          .a = ramp({8, n_rank, 1}),
          .b = ramp({n_rank, 8, 1}, 0.5F)};
}

Adapter adapter_of(std::vector<FactorPair> pairs, double alpha = 0) {
  Adapter adapter;
  adapter.name = "made";
  adapter.path = "made-in-memory";
  adapter.pairs = std::move(pairs);
  adapter.alpha = alpha;
  return adapter;
}

std::vector<float> numbers(const Factor &factor) {
  std::vector<float> values(static_cast<size_t>(factor.n_elements()));
  to_f32(factor, 0, values);
  return values;
}

const AdapterTensor *find(const EncodedAdapter &encoded, const std::string &name) {
  for (const auto &tensor : encoded.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

std::string refusal(const Adapter &adapter, const AdapterWriteOptions &options) {
  try {
    (void)encode_adapter(adapter, options);
  } catch (const LoadError &error) {
    return error.what();
  }
  return "";
}

class GgufAdapterWriter : public testing::Test {
 protected:
  TempDir dir_;
  std::filesystem::path path_ = dir_.path() / "out.gguf";

  void write(const Adapter &adapter, const AdapterWriteOptions &options = {}) const {
    write_gguf_adapter(path_, adapter, encode_adapter(adapter, options), "llama", options);
  }

  [[nodiscard]] std::shared_ptr<Adapter> written(const Adapter &adapter,
                                                 const AdapterWriteOptions &options = {}) const {
    write(adapter, options);
    return load_gguf_adapter(path_, dense_base());
  }
};

TEST(ScaleFolding, TheStatedAlphaIsKeptWhereItIsRight) {
  const std::vector pairs{q_pair(0, 2), q_pair(1, 2)};
  const auto folding = fold_scales(pairs, 4);
  EXPECT_EQ(folding.alpha, 4);
  EXPECT_EQ(folding.factors, (std::vector<double>{1, 1}));
}

TEST(ScaleFolding, MostPairsStayAsTheyAre) {
  const std::vector pairs{q_pair(0, 3), q_pair(1, 0.5F), q_pair(2, 0.5F, 4), q_pair(3, 0.25F, 8)};
  const auto folding = fold_scales(pairs, 6);
  EXPECT_EQ(folding.alpha, 2);
  EXPECT_EQ(folding.factors, (std::vector<double>{3, 0.5, 1, 1}));
}

TEST(ScaleFolding, AlphaIsNeverZero) {
  const std::vector pairs{q_pair(0, 0, 4), q_pair(1, 0)};
  const auto folding = fold_scales(pairs, 0);
  EXPECT_EQ(folding.alpha, 4);
  EXPECT_EQ(folding.factors, (std::vector<double>{0, 0}));
}

TEST(ScaleFolding, NegativeScalesNeedNoFolding) {
  const std::vector pairs{q_pair(0, -1.5F)};
  const auto folding = fold_scales(pairs, -3);
  EXPECT_EQ(folding.alpha, -3);
  EXPECT_EQ(folding.factors.front(), 1);
}

TEST_F(GgufAdapterWriter, WhatIsWrittenReadsBackTheSame) {
  auto adapter = adapter_of({q_pair(0, 2), q_pair(1, 2)}, 4);
  adapter.invocation_tokens = {5, 6};
  adapter.base_name = "some/tiny-8m";
  adapter.task_name = "piracy";
  const auto read = written(
      adapter,
      {.provenance = {.source_sha256 = "ab", .peft_version = "0.21.2", .converter = "patchbay 1"}});
  ASSERT_EQ(read->pairs.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(read->pairs[i].scale, 2);
    EXPECT_EQ(numbers(read->pairs[i].a), numbers(adapter.pairs[i].a));
    EXPECT_EQ(numbers(read->pairs[i].b), numbers(adapter.pairs[i].b));
  }
  EXPECT_EQ(read->alpha, 4);
  EXPECT_EQ(read->invocation_tokens, adapter.invocation_tokens);
  EXPECT_EQ(read->base_name, "some/tiny-8m");
  EXPECT_EQ(read->task_name, "piracy");
  const auto file = GgufFile::open(path_);
  EXPECT_EQ(file.get_string("patchbay.source.sha256"), "ab");
  EXPECT_EQ(file.get_string("patchbay.source.peft_version"), "0.21.2");
  EXPECT_EQ(file.get_string("patchbay.converter"), "patchbay 1");
  EXPECT_EQ(file.get_string("general.name"), "made");
}

TEST_F(GgufAdapterWriter, OwnScalesAreFoldedIntoB) {
  const auto adapter = adapter_of({q_pair(0, 2), q_pair(1, 3)}, 4);
  const auto read = written(adapter);
  for (size_t i = 0; i < 2; ++i) {
    const auto before = numbers(adapter.pairs[i].b);
    const auto after = numbers(read->pairs[i].b);
    for (size_t j = 0; j < before.size(); ++j) {
      EXPECT_FLOAT_EQ(read->pairs[i].scale * after[j], adapter.pairs[i].scale * before[j]);
    }
  }
  EXPECT_EQ(encode_adapter(adapter, {}).n_folded, 1U);
}

TEST_F(GgufAdapterWriter, AScaleOfZeroIsAZeroB) {
  const auto read = written(adapter_of({q_pair(0, 0)}));
  EXPECT_EQ(read->alpha, 2);
  EXPECT_TRUE(all_zero(read->pairs.front().b));
  EXPECT_TRUE(read->cannot_change_output);
}

TEST_F(GgufAdapterWriter, FactorsKeepTheirTypeUnlessOneIsWanted) {
  auto adapter = adapter_of({q_pair(0, 1)}, 2);
  const auto f16 = encode_adapter(adapter, {.type = GGML_TYPE_F16});
  adapter.pairs[0].b.type = GGML_TYPE_F16;
  adapter.pairs[0].b.data = find(f16, "blk.0.attn_q.weight.lora_b")->factor.data;
  adapter.pairs[0].b.owner = find(f16, "blk.0.attn_q.weight.lora_b")->factor.owner;
  const auto read = written(adapter);
  EXPECT_EQ(read->pairs[0].a.type, GGML_TYPE_F32);
  EXPECT_EQ(read->pairs[0].b.type, GGML_TYPE_F16);
}

TEST_F(GgufAdapterWriter, NumbersThatOverflowAreRefusedByNameAndValue) {
  auto adapter = adapter_of({q_pair(0, 1)}, 2);
  adapter.pairs[0].b = make_factor({2, 8, 1}, std::vector<float>(16, 70000.0F));
  const auto error = refusal(adapter, {.type = GGML_TYPE_F16});
  EXPECT_NE(error.find("blk.0.attn_q.weight.lora_b"), std::string::npos) << error;
  EXPECT_NE(error.find("70000"), std::string::npos) << error;
  EXPECT_NE(error.find("overflows f16"), std::string::npos) << error;
  EXPECT_EQ(refusal(adapter, {.type = GGML_TYPE_BF16}), "");
  adapter.pairs[0].b =
      make_factor({2, 8, 1}, std::vector<float>(16, std::numeric_limits<float>::max()));
  EXPECT_NE(refusal(adapter, {.type = GGML_TYPE_BF16}).find("overflows bf16"), std::string::npos);
}

TEST_F(GgufAdapterWriter, AFoldedScaleThatOverflowsIsRefused) {
  auto adapter = adapter_of({q_pair(0, 1), q_pair(1, 1), q_pair(2, 1e30F)}, 2);
  adapter.pairs[2].b = make_factor({2, 8, 1}, std::vector<float>(16, 1e10F));
  EXPECT_NE(refusal(adapter, {}).find("overflows f32"), std::string::npos);
}

TEST_F(GgufAdapterWriter, NumbersThatVanishAreCounted) {
  auto adapter = adapter_of({q_pair(0, 1)}, 2);
  std::vector<float> values(16, 1.0F);
  values[3] = 1e-20F;
  adapter.pairs[0].b = make_factor({2, 8, 1}, values);
  const auto encoded = encode_adapter(adapter, {.type = GGML_TYPE_F16});
  ASSERT_EQ(encoded.notes.size(), 1U);
  EXPECT_NE(encoded.notes[0].find("1 of 32 numbers"), std::string::npos) << encoded.notes[0];
  EXPECT_TRUE(encode_adapter(adapter, {.type = GGML_TYPE_BF16}).notes.empty());
}

TEST_F(GgufAdapterWriter, AFactorThatWouldVanishIsRefused) {
  auto adapter = adapter_of({q_pair(0, 1)}, 2);
  adapter.pairs[0].b = make_factor({2, 8, 1}, std::vector<float>(16, 1e-20F));
  const auto error = refusal(adapter, {.type = GGML_TYPE_F16});
  EXPECT_NE(error.find("would vanish"), std::string::npos) << error;
  adapter.pairs[0].b = make_factor({2, 8, 1}, std::vector<float>(16, 0.0F));
  EXPECT_EQ(refusal(adapter, {.type = GGML_TYPE_F16}), "");
}

TEST_F(GgufAdapterWriter, QuantisedFactorsReadBackNearly) {
  auto adapter = adapter_of({{.target = "blk.0.attn_q.weight",
                              .n_rank = 32,
                              .scale = 1,
                              .a = ramp({8, 32, 1}),
                              .b = ramp({32, 8, 1}, 0.5F)}},
                            32);
  const auto encoded = encode_adapter(adapter, {.type = GGML_TYPE_Q8_0});
  EXPECT_EQ(find(encoded, "blk.0.attn_q.weight.lora_b")->factor.type, GGML_TYPE_Q8_0);
  EXPECT_EQ(find(encoded, "blk.0.attn_q.weight.lora_a")->factor.type, GGML_TYPE_F16);
  ASSERT_EQ(encoded.notes.size(), 1U);
  EXPECT_NE(encoded.notes[0].find("1 of 2 tensors are f16"), std::string::npos) << encoded.notes[0];
  const auto read = written(adapter, {.type = GGML_TYPE_Q8_0});
  const auto before = numbers(adapter.pairs[0].b);
  const auto after = numbers(read->pairs[0].b);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 2.5 / 254 + 1e-3);
}

TEST_F(GgufAdapterWriter, NumbersTooSmallForBlocksOfQ80BecomeF16) {
  auto adapter = adapter_of({{.target = "blk.0.attn_q.weight",
                              .n_rank = 32,
                              .scale = 1,
                              .a = ramp({8, 32, 1}),
                              .b = ramp({32, 8, 1}, 1e-5F)}},
                            32);
  const auto encoded = encode_adapter(adapter, {.type = GGML_TYPE_Q8_0});
  EXPECT_EQ(find(encoded, "blk.0.attn_q.weight.lora_b")->factor.type, GGML_TYPE_F16);
}

TEST_F(GgufAdapterWriter, WhatPlainPairsCannotSayGoesIntoTensorsOfOurOwn) {
  auto adapter = adapter_of({q_pair(0, 2), q_pair(1, 3)}, 4);
  for (auto &pair : adapter.pairs) {
    pair.magnitude = ramp({8, 1, 1});
    pair.bias = ramp({8, 1, 1});
  }
  adapter.replacements = {
      {.tensor = "blk.0.attn_norm.weight", .value = ramp({8, 1, 1})},
      {.tensor = "blk.0.attn_q.bias", .value = ramp({8, 1, 1})},
      {.tensor = "blk.0.ffn_up.weight", .value = ramp({8, 12, 1})},
      {.tensor = "token_embd.weight", .value = ramp({8, 2, 1}), .rows = {3, 7}},
  };
  const auto encoded = encode_adapter(adapter, {.type = GGML_TYPE_F16});
  const auto expect = [&](const char *name, ggml_type type, std::vector<int64_t> ne) {
    const auto *tensor = find(encoded, name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(tensor->factor.type, type) << name;
    EXPECT_EQ(tensor->ne, ne) << name;
  };
  expect("blk.0.attn_q.weight.patchbay_dora_m", GGML_TYPE_F32, {8});
  expect("blk.0.attn_q.weight.patchbay_lora_bias", GGML_TYPE_F32, {8});
  expect("blk.0.attn_q.weight.patchbay_bias", GGML_TYPE_F32, {8});
  expect("blk.0.attn_norm.weight.patchbay_norm", GGML_TYPE_F32, {8});
  expect("blk.0.ffn_up.weight.patchbay_weight", GGML_TYPE_F16, {8, 12});
  expect("token_embd.weight.patchbay_rows", GGML_TYPE_F16, {8, 2});
  expect("token_embd.weight.patchbay_row_ids", GGML_TYPE_I32, {2});
  // Lengths are of the changed weight, whatever the scale; a bias is scaled as B is.
  const auto value_at_0 = [&](const char *name) {
    float value = 0;
    std::memcpy(&value, find(encoded, name)->factor.data.data(), sizeof value);
    return value;
  };
  EXPECT_EQ(value_at_0("blk.1.attn_q.weight.patchbay_dora_m"), -1.25F);
  EXPECT_EQ(value_at_0("blk.0.attn_q.weight.patchbay_lora_bias") *
                value_at_0("blk.1.attn_q.weight.patchbay_lora_bias"),
            1.25F * 1.25F * 1.5F);
  for (const auto &tensor : encoded.tensors) EXPECT_FALSE(tensor.name.ends_with("_norm.weight"));
  write(adapter);
  EXPECT_EQ(GgufFile::open(path_).tensors().size(), encoded.tensors.size());
}

TEST_F(GgufAdapterWriter, AnExistingFileIsReplacedOnlyOnDemand) {
  const auto adapter = adapter_of({q_pair(0, 1)}, 2);
  write(adapter);
  EXPECT_THROW(write(adapter), LoadError);
  write(adapter, {.overwrite = true});
  EXPECT_NO_THROW((void)load_gguf_adapter(path_, dense_base()));
}

TEST_F(GgufAdapterWriter, GivingUpLeavesNothing) {
  const auto adapter = adapter_of({q_pair(0, 1)}, 2);
  const auto give_up = [](size_t, size_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(
      write_gguf_adapter(path_, adapter, encode_adapter(adapter, {}), "llama", {}, give_up),
      std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(GgufAdapterWriter, OthersMayReadTheFileAsAnyOther) {
  const mode_t before = umask(022);
  write(adapter_of({q_pair(0, 1)}, 2));
  umask(before);
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0644U);
}

}  // namespace
}  // namespace patchbay
