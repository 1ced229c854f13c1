#include "lora/peft_names.h"

#include <gtest/gtest.h>

namespace patchbay {
namespace {

constexpr auto k_q = "model.layers.0.self_attn.q_proj";

void expect_key(std::string_view key, const std::string &module, PeftRole role,
                const std::string &adapter_name = "", int n_wrappers = 0) {
  const auto parsed = parse_peft_key(key);
  ASSERT_TRUE(parsed.has_value()) << key;
  EXPECT_EQ(parsed->module_path, module) << key;
  EXPECT_EQ(parsed->role, role) << key;
  EXPECT_EQ(parsed->adapter_name, adapter_name) << key;
  EXPECT_EQ(parsed->n_wrappers, n_wrappers) << key;
}

TEST(PeftNames, PrefixesOfAllWrappersAreStripped) {
  for (const std::string prefix :
       {"", "base_model.model.", "base_model.model.base_model.model.", "module.base_model.model.",
        "_orig_mod.base_model.model.", "base_model.model._orig_mod.", "module._orig_mod."}) {
    expect_key(prefix + k_q + ".lora_A.weight", k_q, PeftRole::pair_a);
  }
  expect_key("base_model.model.model.layers.0._fsdp_wrapped_module.self_attn.q_proj.lora_B.weight",
             k_q, PeftRole::pair_b);
}

TEST(PeftNames, KeysHaveTheirRoles) {
  const std::string q = std::string("base_model.model.") + k_q;
  expect_key(q + ".lora_A.default.weight", k_q, PeftRole::pair_a, "default");
  expect_key(q + ".lora_A", k_q, PeftRole::pair_a);
  expect_key(q + ".lora_B.bias", k_q, PeftRole::lora_bias);
  expect_key(q + ".lora_B.other.bias", k_q, PeftRole::lora_bias, "other");
  expect_key(q + ".lora_magnitude_vector", k_q, PeftRole::magnitude);
  expect_key(q + ".lora_magnitude_vector.weight", k_q, PeftRole::magnitude);
  expect_key(q + ".lora_magnitude_vector.default.weight", k_q, PeftRole::magnitude, "default");
  expect_key(q + ".lora_E", k_q, PeftRole::adalora_scale);
  expect_key(q + ".lora_diag", k_q, PeftRole::kasa_diagonal);
  expect_key(q + ".lora_velora_embed", k_q, PeftRole::training_buffer);
  expect_key(q + ".lora_monteclora_sampler.std_prior", k_q, PeftRole::training_buffer);
  expect_key(q + ".base_layer.weight", k_q, PeftRole::base_copy, "", 1);
  expect_key(q + ".base_layer.weight.quant_state.bitsandbytes__nf4", k_q, PeftRole::base_copy, "",
             1);
  expect_key(q + ".base_layer.bias", k_q, PeftRole::base_bias, "", 1);
  expect_key(q + ".weight", k_q, PeftRole::whole_tensor);
  expect_key(q + ".bias", k_q, PeftRole::whole_tensor);
  expect_key("lm_head.modules_to_save.default.weight", "lm_head", PeftRole::whole_tensor);
  expect_key("model.embed_tokens.lora_embedding_A", "model.embed_tokens", PeftRole::embed_a);
  expect_key("model.embed_tokens.lora_embedding_B.default", "model.embed_tokens", PeftRole::embed_b,
             "default");
  expect_key("model.embed_tokens.token_adapter.trainable_tokens_delta", "model.embed_tokens",
             PeftRole::token_rows);
  expect_key("layers.0.mlp.experts.base_layer.lora_A.weight", "layers.0.mlp.experts",
             PeftRole::pair_a, "", 1);
}

TEST(PeftNames, UnknownFormsHaveNoRole) {
  for (const std::string suffix :
       {".lora_wow", ".lora_a", ".lora_b.weight", ".lora_down.weight", ".lora_up.weight", ".alpha",
        ".hada_w1_a", ".lora_A.x.y.weight", ".lora_A.default", ".lora_A.bias", ".base_layer.what",
        ".lora_monteclora_sampler.other", ""}) {
    EXPECT_FALSE(parse_peft_key(k_q + suffix).has_value()) << suffix;
  }
  EXPECT_FALSE(parse_peft_key("").has_value());
  EXPECT_FALSE(parse_peft_key("lora_A.weight").has_value());
  EXPECT_FALSE(parse_peft_key("base_model.model.lora_A.weight").has_value());
  EXPECT_FALSE(parse_peft_key("base_model").has_value());
}

TEST(PeftNames, LevelsOfMultimodalModelsAreDropped) {
  for (const auto *module :
       {"model.layers.3.mlp.up_proj", "layers.3.mlp.up_proj",
        "model.language_model.layers.3.mlp.up_proj", "language_model.model.layers.3.mlp.up_proj",
        "model.text_model.layers.3.mlp.up_proj"}) {
    EXPECT_EQ(bare_module(module), "layers.3.mlp.up_proj");
  }
  EXPECT_EQ(bare_module("language_model.lm_head"), "lm_head");
}

TEST(PeftNames, PartsThatAreNotTextAreKnown) {
  EXPECT_TRUE(is_vision_or_audio("model.visual.blocks.0.attn.qkv"));
  EXPECT_TRUE(is_vision_or_audio("vision_tower.encoder.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(is_vision_or_audio("multi_modal_projector.linear_1"));
  EXPECT_FALSE(is_vision_or_audio("model.language_model.layers.0.self_attn.q_proj"));
}

TEST(PeftNames, NamesMatchByNumbers) {
  const auto numbers = match_name("layers.#.block_sparse_moe.experts.@.w1",
                                  "layers.12.block_sparse_moe.experts.7.w1");
  ASSERT_TRUE(numbers.has_value());
  EXPECT_EQ(numbers->i_layer, 12);
  EXPECT_EQ(numbers->i_expert, 7);
  for (const auto *other :
       {"layers.x.mlp", "layers..mlp", "layers.-1.mlp", "layers.1x.mlp", "layers.1.mlp.a",
        "layers.1", "layers.99999999999999999999.mlp", "layers.1.mlq"}) {
    EXPECT_FALSE(match_name("layers.#.mlp", other).has_value()) << other;
  }
  EXPECT_EQ(with_layer("blk.#.attn_q.weight", 3), "blk.3.attn_q.weight");
  EXPECT_EQ(with_layer("output.weight", -1), "output.weight");
}

}  // namespace
}  // namespace patchbay
