#include "arch/family.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "arch/decoder.h"
#include "arch/tiny_model.h"
#include "base/temp_dir.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

/// The hyper-parameters of a tiny llama whose metadata `change` has added to.
class HparamsTest : public testing::Test {
 protected:
  template <class T>
  HParams with(const std::string &key, T value) {
    return read(key, [&](GgufBuilder &file) { file.set(key, value); });
  }

  /// What `add` puts into the metadata stands in place of the model's own `left_out`.
  HParams read(const std::string &left_out, const std::function<void(GgufBuilder &)> &add) {
    const TinyModel model = tiny_llama();
    GgufBuilder file;
    // A key may stand in a file once: the model's own is left out where the test sets it.
    set_metadata_except(file, model, left_out);
    add(file);
    file.add_f32("token_embd.weight", {32, 48}, std::vector<float>(32 * 48));
    const auto gguf = GgufFile::open(dir_.write("model.gguf", file.bytes()));
    return family_of(gguf).hparams(gguf);
  }

  template <class T>
  std::string refusal(const std::string &key, T value) {
    return load_failure([&] { (void)with(key, value); });
  }

 private:
  static void set_metadata_except(GgufBuilder &file, const TinyModel &model,
                                  const std::string &left_out) {
    const HParams &hp = model.hparams;
    const std::vector<std::pair<std::string, uint32_t>> numbers{
        {"llama.context_length", hp.n_ctx_train},  {"llama.embedding_length", hp.n_embd},
        {"llama.block_count", hp.n_layer},         {"llama.feed_forward_length", hp.n_ff},
        {"llama.attention.head_count", hp.n_head}, {"llama.attention.head_count_kv", hp.n_head_kv},
        {"llama.rope.dimension_count", hp.n_rot}};
    file.set("general.architecture", "llama");
    for (const auto &[key, value] : numbers) {
      if (key != left_out) file.set(key, value);
    }
    if (left_out != "llama.attention.layer_norm_rms_epsilon") {
      file.set("llama.attention.layer_norm_rms_epsilon", 1e-5F);
    }
  }

  TempDir dir_;
};

TEST_F(HparamsTest, ReadsWhatTheFileSaysAndDerivesTheRest) {
  const HParams hp = with("llama.rope.freq_base", 5e5F);
  EXPECT_EQ(hp.n_vocab, 48U);
  EXPECT_EQ(hp.n_embd_head, 8U);
  EXPECT_EQ(hp.n_embd_kv(), 16U);
  EXPECT_FLOAT_EQ(hp.attn_scale, 1 / std::sqrt(8.0F));
  EXPECT_FLOAT_EQ(hp.rope.freq_base, 5e5F);
  EXPECT_FLOAT_EQ(hp.rope.freq_scale, 1);
  EXPECT_FALSE(hp.rope.neox);
}

TEST_F(HparamsTest, ReadsLinearScalingUnderBothOfItsNames) {
  EXPECT_FLOAT_EQ(with("llama.rope.scaling.factor", 4.0F).rope.freq_scale, 0.25F);
  EXPECT_FLOAT_EQ(with("llama.rope.scale_linear", 2.0F).rope.freq_scale, 0.5F);
}

TEST_F(HparamsTest, NamesTheKeyThatCannotBe) {
  EXPECT_THAT(refusal("llama.attention.head_count_kv", 3U),
              HasSubstr("llama.attention.head_count_kv"));
  EXPECT_THAT(refusal("llama.attention.head_count", 0U), HasSubstr("llama.attention.head_count"));
  EXPECT_THAT(refusal("llama.attention.key_length", 7U), HasSubstr("llama.attention.key_length"));
  EXPECT_THAT(refusal("llama.attention.value_length", 4U),
              HasSubstr("llama.attention.value_length"));
  EXPECT_THAT(refusal("llama.rope.dimension_count", 10U), HasSubstr("llama.rope.dimension_count"));
  EXPECT_THAT(refusal("llama.rope.scaling.type", "longrope"),
              HasSubstr("want none, linear or yarn, found longrope"));
  EXPECT_THAT(refusal("llama.rope.freq_base", -1.0F), HasSubstr("llama.rope.freq_base"));
  EXPECT_THAT(refusal("llama.attention.layer_norm_rms_epsilon", NAN),
              HasSubstr("layer_norm_rms_epsilon"));
  EXPECT_THAT(refusal("llama.block_count", 1U << 30U), HasSubstr("llama.block_count"));
  EXPECT_THAT(refusal("llama.block_count", "two"), HasSubstr("llama.block_count"));
  EXPECT_THAT(refusal("llama.expert_count", 4U), HasSubstr("llama.expert_used_count is missing"));
}

TEST_F(HparamsTest, ScalingWhoseResultOverflowsIsRefused) {
  // Positive and finite, yet 1 / factor is not.
  EXPECT_THAT(refusal("llama.rope.scaling.factor", 1e-40F), HasSubstr("llama.rope.scaling.factor"));
  EXPECT_THAT(refusal("llama.rope.scale_linear", 1e-40F), HasSubstr("llama.rope.scale_linear"));
  EXPECT_THAT(refusal("llama.rope.scaling.attn_factor", 1e-40F),
              HasSubstr("llama.rope.scaling.attn_factor"));
  const auto product = [&] {
    (void)read("", [](GgufBuilder &file) {
      file.set("llama.rope.scaling.type", "yarn");
      file.set("llama.rope.scaling.yarn_attn_factor", 1e30F);
      file.set("llama.rope.scaling.attn_factor", 1e30F);
    });
  };
  EXPECT_THAT(load_failure(product), HasSubstr("llama.rope.scaling.attn_factor"));
}

TEST_F(HparamsTest, OneNumberForAllLayersMayStandInAnArray) {
  const std::string key = "llama.feed_forward_length";
  const auto with_numbers = [&](const std::vector<int32_t> &numbers) {
    return read(key, [&](GgufBuilder &file) { file.set_array<int32_t>(key, numbers); });
  };
  EXPECT_EQ(with_numbers({96, 96}).n_ff, 96U);
  std::vector<int32_t> numbers(1000, 96);
  numbers.back() = 95;
  const auto message = load_failure([&] { (void)with_numbers(numbers); });
  EXPECT_THAT(message, HasSubstr("96, 96, 96, 96, 96 and 995 more"));
}

TEST(FamilyOf, TellsWhatItKnowsAndWhatAnAdapterIs) {
  const TempDir dir;
  const auto open = [&](GgufBuilder file) {
    return GgufFile::open(dir.write("file.gguf", file.bytes()));
  };
  const auto unknown = open(GgufBuilder().set("general.architecture", "mamba"));
  EXPECT_THAT(load_failure([&] { (void)family_of(unknown); }),
              testing::AllOf(HasSubstr("llama, gemma3"), HasSubstr("found mamba")));
  const auto adapter =
      open(GgufBuilder().set("general.type", "adapter").set("general.architecture", "llama"));
  EXPECT_THAT(load_failure([&] { (void)family_of(adapter); }),
              HasSubstr("is an adapter, not a model"));
  const auto nothing = open(GgufBuilder().set("general.name", "x"));
  EXPECT_THAT(load_failure([&] { (void)family_of(nothing); }),
              HasSubstr("general.architecture is missing"));
}

TEST(Family, OnlyLlamaReordersRotaryRows) {
  const auto plan = [](const Family &family, std::string_view module) {
    for (const auto &row : family.hf_names->rows) {
      if (row.hf_path == module) return row.plan;
    }
    ADD_FAILURE() << module;
    return RowPlan::as_is;
  };
  EXPECT_EQ(plan(k_llama, "layers.#.self_attn.q_proj"), RowPlan::rotary_q);
  EXPECT_EQ(plan(k_llama, "layers.#.self_attn.k_proj"), RowPlan::rotary_kv);
  EXPECT_EQ(plan(k_llama, "layers.#.self_attn.v_proj"), RowPlan::as_is);
  EXPECT_EQ(plan(k_gemma3, "layers.#.self_attn.q_proj"), RowPlan::as_is);
}

/// Whether the family's table of tensors has a tensor of this name in the first layer.
bool has_tensor(const TensorTable &table, std::string name) {
  if (const size_t at = name.find('#'); at != std::string::npos) name[at] = '0';
  const auto &specs = table.specs();
  return std::any_of(specs.begin(), specs.end(),
                     [&](const TensorSpec &spec) { return spec.name == name; });
}

TEST(Family, NamesOfModulesLeadToTensorsOfTheFamily) {
  for (const auto &family : families()) {
    HParams dense = tiny_llama().hparams;
    HParams with_experts = dense;
    with_experts.n_expert = 3;
    DecoderWeights dense_weights;
    DecoderWeights expert_weights;
    const auto one = make_tensor_table(family, dense, dense_weights);
    const auto other = make_tensor_table(family, with_experts, expert_weights);
    for (const auto &row : family.hf_names->rows) {
      const std::string target(row.target);
      EXPECT_TRUE(has_tensor(one, target) || has_tensor(other, target)) << target;
    }
    for (const auto &row : family.hf_names->fused) {
      EXPECT_TRUE(has_tensor(other, std::string(row.target))) << row.target;
    }
  }
}

}  // namespace
}  // namespace patchbay
