#include "lora/peft_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/temp_dir.h"
#include "gguf/load_failure.h"
#include "small_bases.h"

namespace patchbay {
namespace {

using nlohmann::ordered_json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

ordered_json plain() { return {{"peft_type", "LORA"}, {"r", 8}, {"lora_alpha", 16}}; }

ordered_json with(const std::string &key, const ordered_json &value) {
  auto json = plain();
  json[key] = value;
  return json;
}

PeftConfig read_text(std::string_view text) {
  const TempDir folder;
  auto config = read_peft_config(folder.write("adapter_config.json", text));
  check_layers(config, dense_base());
  (void)invocation_tokens_for(config, dense_base());
  return config;
}

PeftConfig read(const ordered_json &json) { return read_text(json.dump()); }

std::string failure(const ordered_json &json) {
  return load_failure([&] { (void)read(json); });
}

std::string failure_with(const std::string &key, const ordered_json &value) {
  return failure(with(key, value));
}

TEST(PeftConfig, PlainConfigIsRead) {
  auto json = plain();
  json["base_model_name_or_path"] = "org/model";
  json["peft_version"] = "0.18.2.dev0@abc";
  json["target_modules"] = {"q_proj", "v_proj"};
  json["target_parameters"] = {"experts.down_proj"};
  json["ensure_weight_tying"] = true;
  const auto config = read(json);
  EXPECT_EQ(config.n_rank, 8);
  EXPECT_EQ(config.alpha, 16);
  EXPECT_FALSE(config.rank_stabilized);
  EXPECT_EQ(config.base_name, "org/model");
  EXPECT_THAT(*config.peft_version, ElementsAre(0, 18, 2));
  EXPECT_THAT(config.target_modules, ElementsAre("q_proj", "v_proj"));
  EXPECT_THAT(config.target_parameters, ElementsAre("experts.down_proj"));
  EXPECT_TRUE(config.ties_weights);
  EXPECT_THAT(config.notes, SizeIs(0));
}

TEST(PeftConfig, EveryUnsetOptionOfPeftIsAccepted) {
  const auto config = read_text(R"({
    "alora_invocation_tokens": null, "alpha_pattern": {}, "arrow_config": null, "auto_mapping": null,
    "base_model_name_or_path": "b", "bias": "none", "corda_config": null, "ensure_weight_tying": false,
    "eva_config": null, "exclude_modules": null, "fan_in_fan_out": true, "inference_mode": true,
    "init_lora_weights": true, "kasa_config": null, "layer_replication": null, "layers_pattern": null,
    "layers_to_transform": [1], "loftq_config": {}, "lora_alpha": 16, "lora_bias": false,
    "lora_dropout": 0.1, "lora_ga_config": null, "megatron_config": null,
    "megatron_core": "megatron.core", "modules_to_save": null, "monteclora_config": {"x": 1},
    "peft_type": "LORA", "peft_version": "0.21.2", "qalora_group_size": 16, "r": 8, "rank_pattern": {},
    "revision": null, "target_modules": ".*q_proj", "target_parameters": null,
    "task_type": "CAUSAL_LM", "trainable_token_indices": null, "use_bdlora": null, "use_dora": false,
    "use_qalora": false, "use_rslora": false, "velora_config": {"y": 2}, "runtime_config": {"z": 3}
  })");
  EXPECT_EQ(config.n_rank, 8);
  EXPECT_THAT(config.notes, SizeIs(0));
  EXPECT_THAT(config.target_modules, SizeIs(0));
}

TEST(PeftConfig, OptionsThatChangeTheMathematicsAreRefusedByName) {
  const std::vector<std::pair<std::string, ordered_json>> options = {
      {"kasa_config", {{"beta", 1}}},
      {"arrow_config", {{"top_k", 2}}},
      {"enable_lora", {true, false, true}},
      {"bias", "some"},
      {"trainable_token_indices", {1, -2}},
      {"trainable_token_indices", {{"embed_tokens", {0.5}}}},
      {"use_bdlora", {{"nblocks", 0}}},
      {"use_bdlora", {{"target_modules_bd_a", 3}}},
      {"layer_replication", {{0, 1}, {0, 1}}},
      {"init_lora_weights", "pissa"},
      {"init_lora_weights", "pissa_niter_4"},
      {"init_lora_weights", "olora"},
      {"init_lora_weights", "corda"},
      {"init_lora_weights", "lora_ga"},
      {"init_lora_weights", "loftq"},
      {"init_lora_weights", "OLoRA"},
      {"init_lora_weights", "from_the_future"},
      {"invocation_string", "<rate>"},
  };
  for (const auto &[key, value] : options) {
    EXPECT_THAT(failure_with(key, value), AllOf(HasSubstr(key), HasSubstr("cannot be honoured")));
  }
  EXPECT_THAT(failure_with("init_lora_weights", "pissa"),
              AllOf(HasSubstr("trained from a modified base"),
                    HasSubstr("path_initial_model_for_weight_conversion")));
}

TEST(PeftConfig, EveryRefusalOfAnOptionNamesTheWayOut) {
  EXPECT_THAT(failure_with("kasa_config", {{"beta", 1}}), HasSubstr("extract"));
  EXPECT_THAT(failure_with("arrow_config", {{"top_k", 2}}), HasSubstr("load the adapters"));
  EXPECT_THAT(failure_with("init_lora_weights", "corda"), HasSubstr("--base-is-residual"));
  EXPECT_THAT(failure_with("layer_replication", {{0, 1}, {0, 1}}), HasSubstr("written out"));
  EXPECT_THAT(failure_with("peft_type", "LOHA"), HasSubstr("save_as_lora"));
}

TEST(PeftConfig, AResidualBaseIsTakenWhereTheUserSaysSoAndANoteSaysItToo) {
  const TempDir folder;
  const auto path = folder.write("adapter_config.json", with("init_lora_weights", "pissa").dump());
  const auto config = read_peft_config(path, {.base_is_residual = true});
  EXPECT_THAT(config.notes, ElementsAre(HasSubstr("--base-is-residual")));
  EXPECT_THAT(read_peft_config(folder.write("adapter_config.json", with("r", 8).dump()),
                               {.base_is_residual = true})
                  .notes,
              SizeIs(0));
}

TEST(PeftConfig, DoraGoesWithNothingThatPeftRefusesBesideIt) {
  EXPECT_TRUE(read(with("use_dora", true)).uses_dora);
  const std::vector<std::pair<std::string, ordered_json>> others{
      {"lora_bias", true},
      {"alora_invocation_tokens", {5}},
      {"target_parameters", {"experts.down_proj"}}};
  for (const auto &[key, value] : others) {
    auto json = with(key, value);
    json["use_dora"] = true;
    EXPECT_THAT(failure(json), HasSubstr("use_dora")) << key;
  }
}

TEST(PeftConfig, OptionsOfOtherFormsAreRead) {
  EXPECT_EQ(read(with("qalora_group_size", 4)).qalora_group, std::nullopt);
  auto json = with("use_qalora", true);
  EXPECT_EQ(read(json).qalora_group, 16);
  json["qalora_group_size"] = 4;
  EXPECT_EQ(read(json).qalora_group, 4);
  const auto blocks = read(with("use_bdlora", {{"nblocks", 2},
                                               {"target_modules_bd_a", {"o_proj"}},
                                               {"target_modules_bd_b", nullptr}}))
                          .block_diagonal;
  ASSERT_TRUE(blocks);
  EXPECT_EQ(blocks->n_blocks, 2);
  EXPECT_THAT(blocks->a, ElementsAre("o_proj"));
  EXPECT_THAT(blocks->b, SizeIs(0));
  const auto list = read(with("trainable_token_indices", {7, 3})).trainable_tokens;
  ASSERT_THAT(list, SizeIs(1));
  EXPECT_EQ(list[0].module, "embed_tokens");
  EXPECT_THAT(list[0].tokens, ElementsAre(7, 3));
  const auto tables =
      read(with("trainable_token_indices", {{"embed_tokens", {1}}, {"lm_head", {2, 0}}}))
          .trainable_tokens;
  ASSERT_THAT(tables, SizeIs(2));
  EXPECT_EQ(tables[1].module, "lm_head");
  EXPECT_THAT(tables[1].tokens, ElementsAre(2, 0));
}

TEST(PeftConfig, InitialisationsThatLeaveTheBaseAloneAreAccepted) {
  for (const ordered_json &value :
       {ordered_json(true), ordered_json(false), ordered_json(nullptr), ordered_json("gaussian"),
        ordered_json("orthogonal"), ordered_json("eva"), ordered_json("mica")}) {
    EXPECT_EQ(read(with("init_lora_weights", value)).n_rank, 8) << value;
  }
}

TEST(PeftConfig, ReplicationThatReplicatesNothingIsAccepted) {
  EXPECT_EQ(read(with("layer_replication", {{0, 2}})).n_rank, 8);
  EXPECT_EQ(read(with("layer_replication", {{0, 1}, {1, 2}})).n_rank, 8);
  for (const ordered_json &ranges :
       {ordered_json({{0, 1}}), ordered_json({{1, 2}, {0, 1}}), ordered_json({{0, 2, 3}}),
        ordered_json({0, 2}), ordered_json("0-2"), ordered_json({{0, 3}})}) {
    EXPECT_THAT(failure_with("layer_replication", ranges), HasSubstr("layer_replication"))
        << ranges;
  }
}

TEST(PeftConfig, OtherTypesAreRefusedWithAWayOut) {
  for (const auto *type : {"ADALORA", "LOHA", "LOKR", "VERA", "IA3", "OFT", "XLORA", "lora"}) {
    EXPECT_THAT(failure_with("peft_type", type),
                AllOf(HasSubstr("peft_type"), HasSubstr(type), HasSubstr("save_as_lora")));
  }
  EXPECT_THAT(failure({{"r", 8}}), AllOf(HasSubstr("peft_type"), HasSubstr("nothing")));
  EXPECT_THAT(failure({{"fine_tune_type", "lora"}, {"lora_parameters", {{"rank", 8}}}}),
              HasSubstr("MLX"));
}

TEST(PeftConfig, RankAndAlphaAreExact) {
  for (const ordered_json &rank :
       {ordered_json(0), ordered_json(-8), ordered_json(8.0), ordered_json(1.9), ordered_json(true),
        ordered_json("8"), ordered_json(4294967297), ordered_json(18446744073709551615U)}) {
    EXPECT_THAT(failure_with("r", rank), HasSubstr(": r ")) << rank;
  }
  EXPECT_EQ(read(with("lora_alpha", 0)).alpha, 0);
  EXPECT_EQ(read(with("lora_alpha", -2.5)).alpha, -2.5);
  EXPECT_THAT(failure_with("lora_alpha", true), HasSubstr("lora_alpha"));
  EXPECT_THAT(failure_with("lora_alpha", "16"), HasSubstr("lora_alpha"));
  EXPECT_THAT(failure({{"peft_type", "LORA"}, {"r", 8}}), HasSubstr("lora_alpha is missing"));
  EXPECT_THAT(failure({{"peft_type", "LORA"}, {"lora_alpha", 8}}), HasSubstr("r is missing"));
}

TEST(PeftConfig, ScaleFollowsRankAndPatterns) {
  auto json = plain();
  json["alpha_pattern"] = {{"q_proj", 2}, {"v_proj|o_proj", 5.5}};
  json["rank_pattern"] = {{"q_proj", 4}};
  const auto config = read(json);
  EXPECT_EQ(config.scale_of("a.k_proj", 8), 2);
  EXPECT_EQ(config.scale_of("a.q_proj", 4), 0.5);
  EXPECT_EQ(config.scale_of("a.o_proj", 2), 2.75);
  EXPECT_EQ(config.rank_of("a.q_proj"), 4);
  EXPECT_EQ(config.rank_of("a.v_proj"), 8);
  json["use_rslora"] = true;
  const auto stabilized = read(json);
  EXPECT_DOUBLE_EQ(stabilized.scale_of("a.k_proj", 8), 16 / std::sqrt(8.0));
  EXPECT_DOUBLE_EQ(stabilized.scale_of("a.q_proj", 4), 1);
}

TEST(PeftConfig, PatternsKeepTheOrderOfTheFile) {
  const auto config = read_text(
      R"({"peft_type":"LORA","r":8,"lora_alpha":8,"alpha_pattern":{"z.q_proj":1,"q_proj":2,"a.q_proj":3}})");
  EXPECT_EQ(config.scale_of("z.q_proj", 1), 1);
  EXPECT_EQ(config.scale_of("a.q_proj", 1), 2);
}

TEST(PeftConfig, PatternsOfWrongTypesAreRefused) {
  EXPECT_THAT(failure_with("rank_pattern", {{"q_proj", 2.5}}), HasSubstr("rank_pattern['q_proj']"));
  EXPECT_THAT(failure_with("rank_pattern", {{"q_proj", 0}}), HasSubstr("rank_pattern['q_proj']"));
  EXPECT_THAT(failure_with("alpha_pattern", {{"q_proj", "2"}}), HasSubstr("alpha_pattern"));
  EXPECT_THAT(failure_with("alpha_pattern", {1, 2}), HasSubstr("alpha_pattern"));
  EXPECT_THAT(failure_with("alpha_pattern", {{"(", 1}}),
              AllOf(HasSubstr("alpha_pattern"), HasSubstr("regular expression")));
}

TEST(PeftConfig, ValuesOfWrongTypesAreRefusedByName) {
  const std::vector<std::pair<std::string, ordered_json>> values = {
      {"use_rslora", "yes"},
      {"use_rslora", 1},
      {"ensure_weight_tying", "yes"},
      {"target_parameters", "experts"},
      {"target_parameters", {1}},
      {"target_modules", {{"a", 1}}},
      {"peft_version", 1},
      {"base_model_name_or_path", {1}},
      {"alora_invocation_tokens", "5 6"},
      {"alora_invocation_tokens", {1.5}},
      {"alora_invocation_tokens", {true}},
      {"bias", 3},
      {"init_lora_weights", 3},
      {"peft_type", 3},
  };
  for (const auto &[key, value] : values) {
    EXPECT_THAT(failure_with(key, value), AllOf(HasSubstr(key), HasSubstr("wrong type"))) << value;
  }
}

TEST(PeftConfig, InvocationTokensMustBeOfTheVocabulary) {
  EXPECT_THAT(read(with("alora_invocation_tokens", {5, 9})).invocation_tokens, ElementsAre(5, 9));
  EXPECT_THAT(failure_with("alora_invocation_tokens", {10}), HasSubstr("below 10"));
  EXPECT_THAT(failure_with("alora_invocation_tokens", {-1}), HasSubstr("alora_invocation_tokens"));
  auto json = with("alora_invocation_tokens", {5});
  json["invocation_string"] = "<rate>";
  EXPECT_EQ(read(json).n_rank, 8);
  json["target_parameters"] = {"experts.down_proj"};
  EXPECT_THAT(failure(json), HasSubstr("aLoRA"));
  json["use_dora"] = true;
  EXPECT_THAT(failure(json), HasSubstr("use_dora"));
}

TEST(PeftConfig, VersionsWithoutThreeNumbersAreUnknown) {
  EXPECT_THAT(*read(with("peft_version", "0.19.1")).peft_version, ElementsAre(0, 19, 1));
  for (const auto *text : {"", "0.19", "x.y.z", "0..1", "dev", "0.19.x"}) {
    EXPECT_EQ(read(with("peft_version", text)).peft_version, std::nullopt) << text;
  }
}

TEST(PeftConfig, UnknownOptionsAreNotedWhenSet) {
  auto json = plain();
  json["new_math"] = {{"x", 1}};
  json["off"] = false;
  json["none"] = nullptr;
  json["empty"] = ordered_json::object();
  EXPECT_THAT(read(json).notes, ElementsAre(AllOf(HasSubstr("new_math"), Not(HasSubstr("off")),
                                                  HasSubstr("ignored"))));
}

TEST(PeftConfig, TargetParametersGiveModulesTheirParametersName) {
  const auto config = read(with("target_parameters", {"q_proj.weight"}));
  EXPECT_EQ(config.pattern_name("model.layers.0.q_proj"), "model.layers.0.q_proj.weight");
  EXPECT_EQ(config.pattern_name("model.layers.0.xq_proj"), "model.layers.0.xq_proj");
}

TEST(PeftConfig, WhatIsNoSmallJsonObjectIsRefused) {
  for (const std::string text : {"", "[]", "3", "{", "{\"r\": NaN}", "\xff\xfe", "null"}) {
    EXPECT_NE(load_failure([&] { (void)read_text(text); }), "") << text;
  }
  const std::string deep = "{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(load_failure([&] { (void)read_text(deep); }), HasSubstr("nested too deeply"));
  std::string wide = "{\"k\":0";
  for (int i = 0; i < 51'000; ++i) wide += ",\"k\":0";
  EXPECT_THAT(load_failure([&] { (void)read_text(wide + "}"); }), HasSubstr("too many keys"));
  EXPECT_THAT(load_failure([&] { (void)read_text(std::string((16 << 20) + 1, ' ')); }),
              HasSubstr("too large"));
}

TEST(PeftConfig, TruncatedAnywhereIsRefused) {
  const TempDir folder;
  const auto text = with("alpha_pattern", {{"q_proj", 2}}).dump();
  for (size_t n = 0; n < text.size(); ++n) {
    const auto path = folder.write("adapter_config.json", std::string_view(text).substr(0, n));
    EXPECT_THROW((void)read_peft_config(path), LoadError) << n;
  }
}

}  // namespace
}  // namespace patchbay
