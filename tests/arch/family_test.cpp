#include "arch/family.h"

#include <gmock/gmock.h>

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
    const TinyModel model = tiny_llama();
    GgufBuilder file;
    // A key may stand in a file once: the model's own is left out where the test sets it.
    set_metadata_except(file, model, key);
    file.set(key, value);
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

}  // namespace
}  // namespace patchbay
