#include "lora/peft_writer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/temp_dir.h"
#include "lora/factor_ops.h"
#include "lora/peft_adapter.h"
#include "lora/peft_builder.h"
#include "lora/small_bases.h"
#include "model/hf_families.h"

namespace patchbay {
namespace {

BaseInfo llama_base(bool tied_head = false) {
  auto base = dense_base("llama", tied_head);
  base.hf_names = find_hf_names("llama");
  return base;
}

Factor ramp(std::array<int64_t, 3> ne, float offset = 0) {
  std::vector<float> values;
  for (int64_t i = 0; i < ne[0] * ne[1] * ne[2]; ++i) {
    values.push_back(offset + static_cast<float>(i % 13));
  }
  return make_factor(ne, std::move(values));
}

FactorPair linear(const char *target, int64_t n_in, int64_t n_out, float scale = 2,
                  int64_t n_rank = 2) {
  return {.target = target,
          .n_rank = n_rank,
          .scale = scale,
          .a = ramp({n_in, n_rank, 1}),
          .b = ramp({n_rank, n_out, 1}, 1)};
}

Adapter adapter_of(std::vector<FactorPair> pairs, double alpha = 4) {
  Adapter adapter;
  adapter.path = "made-in-memory";
  adapter.pairs = std::move(pairs);
  adapter.alpha = alpha;
  return adapter;
}

const PeftTensor &tensor(const PeftContent &content, const std::string &name) {
  for (const auto &one : content.tensors) {
    if (one.name == "base_model.model." + name) return one;
  }
  throw std::runtime_error("no tensor " + name);
}

std::string refusal(const Adapter &adapter, const BaseInfo &base) {
  try {
    (void)make_peft(adapter, base);
  } catch (const LoadError &error) {
    return error.what();
  }
  return "";
}

constexpr const char *k_q = "model.layers.0.self_attn.q_proj";

TEST(PeftWriter, ConfigSaysRankAndAlphaOfEachModule) {
  const auto content = make_peft(
      adapter_of({linear("blk.0.attn_q.weight", 8, 8), linear("blk.0.attn_v.weight", 8, 4),
                  linear("blk.1.ffn_down.weight", 12, 8, 0.75F, 4)}),
      llama_base());
  EXPECT_EQ(content.config["r"], 2);
  EXPECT_EQ(content.config["lora_alpha"], 4);
  EXPECT_EQ(content.config["use_rslora"], false);
  EXPECT_EQ(content.config["rank_pattern"],
            (nlohmann::ordered_json{{"model.layers.1.mlp.down_proj", 4}}));
  EXPECT_EQ(content.config["alpha_pattern"],
            (nlohmann::ordered_json{{"model.layers.1.mlp.down_proj", 3}}));
  EXPECT_EQ(
      content.config["target_modules"],
      (nlohmann::ordered_json{"model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.v_proj",
                              "model.layers.1.mlp.down_proj"}));
  EXPECT_EQ(content.config["bias"], "none");
}

TEST(PeftWriter, FolderReadsBackTheSame) {
  const TempDir dir;
  const auto base = llama_base();
  FactorPair embed{.target = "token_embd.weight",
                   .kind = UseKind::embed,
                   .n_rank = 3,
                   .scale = -1.5F,
                   .a = ramp({3, 10, 1}),
                   .b = ramp({3, 8, 1})};
  auto adapter =
      adapter_of({linear("blk.0.attn_k.weight", 8, 4), linear("blk.0.attn_q.weight", 8, 8, 0.3F),
                  linear("output.weight", 8, 10), embed});
  adapter.invocation_tokens = {};
  write_peft_folder(dir.path() / "out", make_peft(adapter, base), false);
  const auto read = load_peft_adapter(dir.path() / "out", base);
  ASSERT_EQ(read->pairs.size(), adapter.pairs.size());
  for (const auto &pair : adapter.pairs) {
    const auto *same = read->find(pair.target);
    ASSERT_NE(same, nullptr) << pair.target;
    EXPECT_EQ(same->scale, pair.scale) << pair.target;
    EXPECT_EQ(numbers(same->a), numbers(pair.a)) << pair.target;
    EXPECT_EQ(numbers(same->b), numbers(pair.b)) << pair.target;
  }
}

TEST(PeftWriter, LengthsAndBiasesComeBackInHuggingFacesOrder) {
  auto adapter = adapter_of({linear("blk.0.attn_q.weight", 8, 8)});
  const auto base = llama_base();
  Factor in_order = ramp({1, 8, 1});
  Factor reordered = reorder_rotary_rows(in_order, 2);
  reordered.ne = {8, 1, 1};
  adapter.pairs[0].magnitude = reordered;
  adapter.pairs[0].bias = reordered;
  adapter.replacements = {{.tensor = "blk.0.attn_q.bias", .value = reordered}};
  const auto content = make_peft(adapter, base);
  for (const char *suffix : {".lora_magnitude_vector", ".lora_B.bias", ".base_layer.bias"}) {
    EXPECT_EQ(numbers(tensor(content, k_q + std::string(suffix)).factor), numbers(in_order));
    EXPECT_EQ(tensor(content, k_q + std::string(suffix)).shape, std::vector<int64_t>{8});
  }
  EXPECT_EQ(content.config["use_dora"], true);
  EXPECT_EQ(content.config["lora_bias"], true);
  EXPECT_EQ(content.config["bias"], "lora_only");
}

TEST(PeftWriter, DoraOnSomePairsOnlyIsRefused) {
  auto adapter =
      adapter_of({linear("blk.0.attn_q.weight", 8, 8), linear("blk.0.attn_v.weight", 8, 4)});
  adapter.pairs[0].magnitude = ramp({8, 1, 1});
  const auto error = refusal(adapter, llama_base());
  EXPECT_NE(error.find("model.layers.0.self_attn.v_proj has no DoRA lengths"), std::string::npos)
      << error;
}

TEST(PeftWriter, ReplacementsAreModulesToSaveAndTokenRows) {
  auto adapter = adapter_of({linear("blk.0.attn_q.weight", 8, 8)});
  adapter.replacements = {
      {.tensor = "blk.1.ffn_up.bias", .value = ramp({12, 1, 1})},
      {.tensor = "output_norm.weight", .value = ramp({8, 1, 1})},
      {.tensor = "token_embd.weight", .value = ramp({8, 2, 1}), .rows = {1, 4}}};
  const auto content = make_peft(adapter, llama_base());
  EXPECT_EQ(content.config["bias"], "all");
  EXPECT_EQ(content.config["modules_to_save"], nlohmann::ordered_json{"model.norm"});
  EXPECT_EQ(content.config["trainable_token_indices"]["model.embed_tokens"],
            (nlohmann::ordered_json{1, 4}));
  EXPECT_EQ(tensor(content, "model.norm.weight").shape, std::vector<int64_t>{8});
  EXPECT_EQ(tensor(content, "model.embed_tokens.token_adapter.trainable_tokens_delta").shape,
            (std::vector<int64_t>{2, 8}));
  EXPECT_EQ(numbers(tensor(content, "model.layers.1.mlp.up_proj.bias").factor),
            numbers(ramp({12, 1, 1})));
}

TEST(PeftWriter, RowsOfATiedTableAreSavedOnce) {
  auto adapter = adapter_of({linear("blk.0.attn_q.weight", 8, 8)});
  const Replacement rows{.tensor = "output.weight", .value = ramp({8, 1, 1}), .rows = {3}};
  adapter.replacements = {rows};
  EXPECT_NE(refusal(adapter, llama_base(true)).find("one use of a tied table only"),
            std::string::npos);
  adapter.replacements.push_back(rows);
  adapter.replacements.back().tensor = "token_embd.weight";
  const auto content = make_peft(adapter, llama_base(true));
  EXPECT_EQ(content.config["trainable_token_indices"].size(), 1U);
}

TEST(PeftWriter, GemmasNormsLoseTheirOne) {
  auto base = dense_base("gemma3", true);
  base.hf_names = find_hf_names("gemma3");
  auto adapter = adapter_of({linear("blk.0.attn_q.weight", 8, 8)});
  adapter.replacements = {{.tensor = "blk.0.post_ffw_norm.weight", .value = ramp({8, 1, 1}, 1)}};
  const auto content = make_peft(adapter, base);
  EXPECT_EQ(numbers(tensor(content, "model.layers.0.post_feedforward_layernorm.weight").factor),
            numbers(ramp({8, 1, 1})));
}

TEST(PeftWriter, ExpertsWithRanksOfTheirOwnShareOneParameter) {
  const TempDir dir;
  auto base = expert_base();
  base.hf_names = find_hf_names("llama");
  const auto experts = [](const char *target, int64_t n_rank, float scale) {
    return FactorPair{.target = target,
                      .kind = UseKind::experts,
                      .n_rank = n_rank,
                      .scale = scale,
                      .a = ramp({8, n_rank, 3}),
                      .b = ramp({n_rank, 12, 3}, 1)};
  };
  const auto adapter = adapter_of(
      {experts("blk.0.ffn_gate_exps.weight", 1, 2), experts("blk.0.ffn_up_exps.weight", 2, 3)});
  const auto content = make_peft(adapter, base);
  EXPECT_EQ(content.config["r"], 3);
  write_peft_folder(dir.path() / "out", content, false);
  const auto read = load_peft_adapter(dir.path() / "out", base);
  for (const auto &pair : adapter.pairs) {
    const auto *same = read->find(pair.target);
    ASSERT_NE(same, nullptr);
    const auto a = numbers(pair.a);
    const auto b = numbers(pair.b);
    const auto a2 = numbers(same->a);
    const auto b2 = numbers(same->b);
    const auto delta = [](const auto &as, const auto &bs, int64_t r, int64_t e, int64_t row,
                          int64_t i) {
      float sum = 0;
      for (int64_t k = 0; k < r; ++k) {
        sum += as[static_cast<size_t>((e * r + k) * 8 + i)] *
               bs[static_cast<size_t>((e * 12 + row) * r + k)];
      }
      return sum;
    };
    for (int64_t e = 0; e < 3; ++e) {
      for (int64_t row = 0; row < 12; ++row) {
        EXPECT_FLOAT_EQ(pair.scale * delta(a, b, pair.n_rank, e, row, 5),
                        same->scale * delta(a2, b2, same->n_rank, e, row, 5));
      }
    }
  }
}

TEST(PeftWriter, ATargetWithoutANameIsRefused) {
  EXPECT_NE(refusal(adapter_of({linear("blk.0.attn_wow.weight", 8, 8)}), llama_base())
                .find("has no name in PEFT"),
            std::string::npos);
}

TEST(PeftWriter, AnExistingFolderIsReplacedOnlyOnDemandAndNothingElseIsLeft) {
  const TempDir dir;
  const auto content = make_peft(adapter_of({linear("blk.0.attn_q.weight", 8, 8)}), llama_base());
  const auto give_up = [](size_t, size_t) { throw std::runtime_error("enough"); };
  EXPECT_THROW(write_peft_folder(dir.path() / "out", content, false, give_up), std::runtime_error);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  write_peft_folder(dir.path() / "out", content, false);
  EXPECT_THROW(write_peft_folder(dir.path() / "out", content, false), LoadError);
  write_peft_folder(dir.path() / "out", content, true);
  EXPECT_NO_THROW((void)load_peft_adapter(dir.path() / "out", llama_base()));
}

}  // namespace
}  // namespace patchbay
