#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "engine/step_support.h"
#include "gguf/load_failure.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// F32 throughout; the transform rounds each input and each stored row once more.
constexpr float k_tolerance = 1e-4F;

const std::vector<int32_t> k_tokens{3, 17, 42, 3, 8, 30, 11, 1};

/// The same file without what it says about its folding.
GgufBuilder without_metadata(TinyModel model) {
  const TinyFolding folding = std::exchange(model.folding, {});
  FoldedNames ignored;
  return build_tiny_model(model, [&](const TensorSpec &spec, std::vector<float> &values) {
    fold(folding, spec, values, ignored);
  });
}

class FoldedBase : public testing::TestWithParam<TinyModel> {
 protected:
  std::shared_ptr<const LoadedModel> load(const GgufBuilder &file) {
    return load_model(dir_.write("model.gguf", file.bytes()));
  }
  std::vector<float> logits(const GgufBuilder &file) {
    return run_alone(load(file), {}, {.tokens = k_tokens});
  }
  std::vector<float> logits_of(const TinyModel &model) { return logits(build_tiny_model(model)); }

  /// The logits under two adapters on every use but those of the table.
  std::vector<float> adapted(const TinyModel &tiny) {
    const auto model = load(build_tiny_model(tiny));
    std::vector<AdaptableUse> uses = model->info.uses;
    std::erase_if(uses, [&](const AdaptableUse &use) {
      return use.name == "token_embd.weight" || (tiny.tied_head && use.name == "output.weight");
    });
    const std::vector adapters{make_random_adapter(uses, 3, 0.3F, 1),
                               make_random_adapter(uses, 2, 0.3F, 2)};
    const std::vector<Worn> worn{{0, 1}, {1, -0.5F}};
    return run_alone(model, adapters, {.tokens = k_tokens, .set = worn});
  }

  TempDir dir_;
};

TEST_P(FoldedBase, ComputesWhatTheUnfoldedOneDoes) {
  const auto base = logits_of(GetParam());
  for (const int64_t block_size : {1, 2, 16, 32}) {
    for (const bool explicit_signs : {true, false}) {
      const auto model =
          folded(GetParam(), {.block_size = block_size, .explicit_signs = explicit_signs});
      EXPECT_LT(max_difference(logits_of(model), base), k_tolerance)
          << "block " << block_size << ", signs " << explicit_signs;
    }
  }
}

TEST_P(FoldedBase, IsNoOrdinaryOne) {
  const auto base = logits_of(GetParam());
  const auto signs_only = folded(GetParam(), {.block_size = 1});
  const auto blocks_only = folded(GetParam(), {.block_size = 16, .explicit_signs = false});
  EXPECT_GT(max_difference(logits(without_metadata(signs_only)), base), 0.1F);
  EXPECT_GT(max_difference(logits(without_metadata(blocks_only)), base), 0.1F);
}

TEST_P(FoldedBase, MayFoldSomeOfTheWeightsThatShareAnInput) {
  const auto base = logits_of(GetParam());
  for (const char *part : {"attn_q", "attn_output", "ffn_up", "ffn_down", "token_embd"}) {
    const auto model = folded(GetParam(), {.block_size = 16, .takes = [part](const auto &spec) {
                                             return spec.name.find(part) != std::string::npos;
                                           }});
    EXPECT_LT(max_difference(logits_of(model), base), k_tolerance) << part;
    EXPECT_GT(max_difference(logits(without_metadata(model)), base), 1e-2F) << part;
  }
}

TEST_P(FoldedBase, AdaptersReadThePlainInput) {
  const auto plain = adapted(GetParam());
  EXPECT_GT(max_difference(plain, logits_of(GetParam())), 1e-2F);
  EXPECT_LT(max_difference(adapted(folded(GetParam())), plain), k_tolerance);
}

TEST_P(FoldedBase, OnlyUsesOfAFoldedTableAreClosedToAdapters) {
  const auto model = load(build_tiny_model(folded(GetParam())));
  for (const auto &use : model->info.uses) {
    const bool is_table =
        use.name == "token_embd.weight" || (GetParam().tied_head && use.name == "output.weight");
    EXPECT_EQ(use.rotated_table, is_table) << use.name;
  }
  const auto plain_table =
      load(build_tiny_model(folded(GetParam(), {.block_size = 16, .takes = [](const auto &spec) {
                                                  return spec.name != "token_embd.weight";
                                                }})));
  EXPECT_TRUE(std::ranges::none_of(plain_table->info.uses, &AdaptableUse::rotated_table));
}

/// What a model of quantised folded weights stands for: F32 weights with the numbers that are left
/// after folding, quantising and unfolding.
GgufBuilder unfolded_after_quantising(TinyModel model) {
  const TinyFolding folding = std::exchange(model.folding, {});
  const ggml_type type = std::exchange(model.type, GGML_TYPE_F32);
  return build_tiny_model(model, [&](const TensorSpec &spec, std::vector<float> &values) {
    if (spec.role == TensorRole::vector) return;
    fold_rows(folding, spec.ne[0], values);
    const std::string bytes = encode(type, spec.ne[0], values);
    ggml_get_type_traits(type)->to_float(bytes.data(), values.data(),
                                         static_cast<int64_t>(values.size()));
    // The inverse: the transform, which without signs is its own, and then the signs.
    fold_rows({.block_size = folding.block_size, .explicit_signs = false}, spec.ne[0], values);
    fold_rows({.block_size = 1, .explicit_signs = true}, spec.ne[0], values);
  });
}

TEST_P(FoldedBase, QuantisedWeightsStandForTheirUnfoldedNumbers) {
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0}) {
    TinyModel model = folded(GetParam());
    model.type = type;
    const auto wanted = logits(unfolded_after_quantising(model));
    // The rotated input is rounded to F16 or eight bits per product, as any quantised base's is;
    // one logit in the 48 moves most. Another expert chosen is a jump and no error of the
    // transform.
    if (model.hparams.n_expert > 0 && type != GGML_TYPE_F16) continue;
    const float largest = std::abs(
        *std::ranges::max_element(wanted, {}, [](float logit) { return std::abs(logit); }));
    EXPECT_LT(max_difference(logits_of(model), wanted), 0.05F * largest) << ggml_type_name(type);
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, FoldedBase,
                         testing::Values(tiny_llama(), tiny_tied_llama(), tiny_mixtral(),
                                         tiny_gemma3()),
                         [](const auto &param) { return param.param.name; });

TEST(WideFoldedBase, ABlockTooWideForOneMatrixIsTurnedInTwoSteps) {
  TinyModel wide = tiny_llama();
  wide.hparams.n_embd = 4096;
  wide.hparams.n_layer = 1;
  const auto is_wide = [](const TensorSpec &spec) { return spec.ne[0] == 4096; };
  const TempDir dir;
  const auto base = run_alone(load_tiny(wide, dir), {}, {.tokens = k_tokens});
  for (const int64_t block_size : {1024, 2048, 4096}) {
    const auto model = folded(wide, {.block_size = block_size, .takes = is_wide});
    EXPECT_LT(max_difference(run_alone(load_tiny(model, dir), {}, {.tokens = k_tokens}), base),
              k_tolerance)
        << block_size;
    EXPECT_GT(max_difference(
                  run_alone(load_model(dir.write("bare.gguf", without_metadata(model).bytes())), {},
                            {.tokens = k_tokens}),
                  base),
              0.1F);
  }
}

/// A sound unfolded model whose metadata names these weights.
std::string refusal(const FoldedNames &names) {
  const TempDir dir;
  GgufBuilder file = build_tiny_model(tiny_llama());
  set_folding(file, {.block_size = 8}, names);
  return load_failure([&] { (void)load_model(dir.write("model.gguf", file.bytes())); });
}

TEST(FoldedNamesTest, MustBeWeightsThatTheGraphTransforms) {
  EXPECT_THAT(
      refusal({.linears = {"token_embd.weight"}, .widths = {32}}),
      AllOf(HasSubstr(
                "prism.hadamard.weight_names names a tensor that the graph would not transform"),
            HasSubstr("found 'token_embd.weight'")));
  EXPECT_THAT(refusal({.tables = {"output.weight"}, .widths = {32}}),
              AllOf(HasSubstr("prism.hadamard.inverse_weight_names names a tensor that the graph "
                              "would not transform"),
                    HasSubstr("found 'output.weight'")));
  EXPECT_THAT(refusal({.linears = {"blk.0.attn_norm.weight"}, .widths = {32}}),
              HasSubstr("would not transform"));
  EXPECT_THAT(refusal({.linears = {"blk.1.ffn_up.bias"}, .widths = {64}}),
              HasSubstr("would not transform"));
}

/// A pair of zeros on one weight.
std::string adapter_image(const std::string &target, int64_t n_a, int64_t n_b) {
  GgufBuilder file;
  file.set("general.type", "adapter")
      .set("general.architecture", "llama")
      .set("adapter.type", "lora")
      .add_f32(target + ".lora_a",
               target == "token_embd.weight" ? std::vector<int64_t>{2, n_a}
                                             : std::vector<int64_t>{n_a, 2},
               std::vector<float>(static_cast<size_t>(2 * n_a)))
      .add_f32(target + ".lora_b", {2, n_b}, std::vector<float>(static_cast<size_t>(2 * n_b)));
  return file.bytes();
}

TEST(FoldedTable, AdaptersOnItAreRefusedInBothOfItsUses) {
  const TempDir dir;
  const auto model = load_tiny(folded(tiny_tied_llama()), dir);
  const auto load = [&](const std::string &image) {
    return load_adapter(dir.write("adapter.gguf", image), model->info);
  };
  EXPECT_THAT(load_failure([&] { (void)load(adapter_image("token_embd.weight", 48, 32)); }),
              HasSubstr("token_embd.weight targets a prism.hadamard latent lookup table"));
  EXPECT_THAT(load_failure([&] { (void)load(adapter_image("output.weight", 32, 48)); }),
              HasSubstr("output.weight targets a prism.hadamard latent lookup table"));
  EXPECT_NO_THROW((void)load(adapter_image("blk.0.attn_output.weight", 32, 32)));
}

}  // namespace
}  // namespace patchbay
