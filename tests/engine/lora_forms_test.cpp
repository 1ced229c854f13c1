#include <gmock/gmock.h>

#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<int32_t> k_tokens{5, 40, 2, 19, 33};

/// Adapters of many ranks and types on everything that the model's graph reads, and two on parts.
std::vector<std::shared_ptr<const Adapter>> make_adapters(const LoadedModel &model) {
  const auto &uses = model.info.uses;
  std::vector<AdaptableUse> some;
  for (const auto &use : uses) {
    if (use.name.find("attn_v") != std::string::npos || use.name.find("up") != std::string::npos)
      some.push_back(use);
  }
  constexpr float k_size = 0.2F;
  return {make_random_adapter(uses, 4, k_size, 1),
          make_random_adapter(uses, 7, k_size, 2, GGML_TYPE_F16),
          make_random_adapter(uses, 16, k_size, 3, GGML_TYPE_BF16),
          make_random_adapter(uses, 33, k_size, 4),
          make_random_adapter(uses, 64, k_size, 5, GGML_TYPE_F16),
          make_random_adapter(some, 3, k_size, 6),
          make_random_adapter(std::span(uses).last(3), 1, k_size, 7)};
}

class LoraForms : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_tiny(GetParam(), dir_);
    adapters_ = make_adapters(*model_);
  }

  [[nodiscard]] std::unique_ptr<Executor> executor(LoraForm form, uint32_t n_threads = 1) const {
    return make_executor(model_, 128, adapters_, form, n_threads);
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
};

/// Of every kind: none, one, mixed, negative, above one, no strength.
std::vector<AdapterSet> all_sets() {
  return {{},
          {{0, 1}},
          {{1, -1.5F}},
          {{2, 0.5F}},
          {{3, 1}},
          {{4, 0.25F}},
          {{5, 3}},
          {{6, -2}},
          {{0, 1}, {4, -0.5F}},
          {{2, 0.5F}, {5, 1}},
          {{1, 1}, {3, 0.5F}, {6, 2}},
          {{5, 0}}};
}

TEST_P(LoraForms, AgreeOnEverySet) {
  for (const auto &set : all_sets()) {
    const Stretch stretch{.tokens = k_tokens, .set = set};
    const auto portable = run_alone(model_, adapters_, stretch, LoraForm::portable);
    const auto fused = run_alone(model_, adapters_, stretch, LoraForm::fused);
    // F32 in both, in another order of summing.
    EXPECT_LT(max_difference(portable, fused), 1e-4F) << testing::PrintToString(set.size());
  }
}

TEST_P(LoraForms, AgreeOnAMixedStep) {
  const auto sets = all_sets();
  std::vector<Stretch> mix;
  for (size_t i = 0; i < sets.size(); ++i)
    mix.push_back({.seq_id = static_cast<int32_t>(i), .tokens = k_tokens, .set = sets[i]});
  EXPECT_LT(max_difference(run_step(*executor(LoraForm::portable), mix),
                           run_step(*executor(LoraForm::fused), mix)),
            1e-4F);
}

TEST_P(LoraForms, AFusedRowHasTheSameBitsAloneAndAmongOthersOnAnyNumberOfThreads) {
  const auto sets = all_sets();
  std::vector<Stretch> mix;
  for (size_t i = 0; i < sets.size(); ++i)
    mix.push_back({.seq_id = static_cast<int32_t>(i), .tokens = {k_tokens[i % 5]}, .set = sets[i]});
  const size_t n_vocab = model_->hparams().n_vocab;
  for (const uint32_t n_threads : {1U, 2U, 3U}) {
    const auto together = run_step(*executor(LoraForm::fused, n_threads), mix);
    for (size_t i = 0; i < mix.size(); ++i) {
      const auto alone = run_alone(model_, adapters_, {.tokens = mix[i].tokens, .set = mix[i].set},
                                   LoraForm::fused);
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             together.begin() + static_cast<ptrdiff_t>(i * n_vocab)))
          << "row " << i << " on " << n_threads << " threads";
    }
  }
}

TEST_P(LoraForms, LongStretchesAreCutBetweenRowsAndEachRowKeepsItsBits) {
  // From 8 rows a thread on the work is cut another way.
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 20; ++i) tokens.push_back((i * 7) % 40);
  const std::vector<Stretch> stretch{{.tokens = tokens, .set = {{0, 1}, {5, -1}}}};
  const auto one = run_step(*executor(LoraForm::fused, 1), stretch);
  EXPECT_EQ(run_step(*executor(LoraForm::fused, 2), stretch), one);
  EXPECT_EQ(run_step(*executor(LoraForm::fused, 3), stretch), one);
}

TEST_P(LoraForms, RowsOfTheBaseKeepItsBitsAmongRowsWithAdapters) {
  const std::vector<Stretch> base{{.seq_id = 0, .tokens = k_tokens}};
  auto mixed = base;
  mixed.push_back({.seq_id = 1, .tokens = k_tokens, .set = {{0, 1}, {3, -1}}});
  const auto alone = run_step(*executor(LoraForm::automatic), base);
  for (const LoraForm form : {LoraForm::portable, LoraForm::fused}) {
    const auto together = run_step(*executor(form), mixed);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin()));
  }
}

TEST_P(LoraForms, ARemovedAdapterThatComesBackGivesTheSameAnswer) {
  for (const LoraForm form : {LoraForm::portable, LoraForm::fused}) {
    const auto tested = executor(form);
    const std::vector<Stretch> stretch{{.tokens = k_tokens, .set = {{1, 1}, {2, 0.5F}}}};
    const auto before = run_step(*tested, stretch);
    tested->remove_adapter(1);
    tested->release(0);
    (void)run_step(*tested, {{.tokens = k_tokens, .set = {{2, 1}}}});
    ASSERT_EQ(tested->add_adapter(adapters_[1]), 1);
    tested->release(0);
    EXPECT_EQ(run_step(*tested, stretch), before);
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, LoraForms, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

}  // namespace
}  // namespace patchbay
