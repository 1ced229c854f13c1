#include "engine/executor.h"

#include <gmock/gmock.h>

#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

// F32 throughout; another batch size may sum in another order.
constexpr float k_tolerance = 1e-4F;

const std::vector<int32_t> k_tokens{5, 40, 2, 19, 33};
const std::vector<int32_t> k_others{7, 7, 12};

class ExecutorOf : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_tiny(GetParam(), dir_);
    const auto &uses = model_->info.uses;
    adapters_ = {make_random_adapter(uses, 2, 0.3F, 1), make_random_adapter(uses, 5, 0.3F, 2),
                 make_random_adapter(std::span(uses).subspan(uses.size() / 2), 3, 0.3F, 3)};
    executor_ = make_executor(model_, 64, adapters_);
    for (const auto &adapter : adapters_) places_.push_back(executor_->add_adapter(adapter));
  }

  [[nodiscard]] AdapterSet wearing(std::vector<std::pair<size_t, float>> parts) const {
    std::vector<Worn> worn;
    for (const auto &[i, strength] : parts) worn.push_back({places_[i], strength});
    return worn;
  }

  void expect_equals_alone(std::span<const float> logits, size_t &first,
                           const Stretch &stretch) const {
    const size_t n = stretch.tokens.size() * model_->hparams().n_vocab;
    EXPECT_LT(max_difference(logits.subspan(first, n), run_alone(model_, adapters_, stretch)),
              k_tolerance);
    first += n;
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  std::vector<std::shared_ptr<const Adapter>> adapters_;
  std::vector<int32_t> places_;
  std::unique_ptr<Executor> executor_;
};

TEST_P(ExecutorOf, MixedBatchEqualsEachSequenceAlone) {
  const std::vector<Stretch> mix{
      {.seq_id = 0, .tokens = k_tokens},
      {.seq_id = 1, .tokens = k_tokens, .set = wearing({{0, 1}})},
      {.seq_id = 2, .tokens = k_others, .set = wearing({{1, -0.5F}})},
      {.seq_id = 3, .tokens = k_tokens, .set = wearing({{0, 0.5F}, {1, 2}, {2, 1}})},
      {.seq_id = 4, .tokens = k_others, .set = wearing({{2, 1}})}};
  const auto logits = run_step(*executor_, mix);
  size_t first = 0;
  for (const auto &stretch : mix) expect_equals_alone(logits, first, stretch);
}

TEST_P(ExecutorOf, RowsWithoutAdapterKeepTheBitsOfTheBaseInAMixedBatch) {
  const std::vector<Stretch> base{{.seq_id = 0, .tokens = k_tokens},
                                  {.seq_id = 1, .tokens = k_others}};
  auto mixed = base;
  mixed[1].set = wearing({{0, 1}, {2, -1}});
  const auto fresh = make_executor(model_, 64, adapters_);
  const auto alone = run_step(*fresh, base);
  const auto together = run_step(*executor_, mixed);
  const size_t n = k_tokens.size() * model_->hparams().n_vocab;
  EXPECT_TRUE(
      std::equal(alone.begin(), alone.begin() + static_cast<ptrdiff_t>(n), together.begin()));
  EXPECT_GT(max_difference(std::span(alone).subspan(n), std::span(together).subspan(n)), 1e-3F);
}

TEST_P(ExecutorOf, ChunkedPrefillEqualsOneStep) {
  const auto whole = run_alone(model_, adapters_, {.tokens = k_tokens, .set = wearing({{1, 1}})});
  std::vector<float> chunks;
  for (size_t i = 0; i < k_tokens.size(); ++i) {
    const auto one = run_step(*executor_, {{.tokens = {k_tokens[i]},
                                            .set = wearing({{1, 1}}),
                                            .first_pos = static_cast<int32_t>(i)}});
    chunks.insert(chunks.end(), one.begin(), one.end());
  }
  EXPECT_LT(max_difference(whole, chunks), k_tolerance);
}

TEST_P(ExecutorOf, AnotherAdapterInAStepOfTheSameShapeIsNotTakenForTheFirst) {
  // Equal shapes run the same graph again; only the data differ.
  for (const size_t i : {0UL, 1UL, 0UL}) {
    executor_->release(0);
    const Stretch stretch{.tokens = k_tokens, .set = wearing({{i, 1}})};
    size_t first = 0;
    expect_equals_alone(run_step(*executor_, {stretch}), first, stretch);
  }
}

TEST_P(ExecutorOf, AdaptersThatComeAndGoBetweenStepsLeaveTheOthersAnswersAlone) {
  const Stretch stretch{.tokens = k_tokens, .set = wearing({{0, 1}, {2, 0.5F}})};
  const auto before = run_step(*executor_, {stretch});
  executor_->remove_adapter(places_[1]);
  executor_->release(0);
  EXPECT_EQ(run_step(*executor_, {stretch}), before);
  executor_->remove_adapter(places_[0]);
  // Its index, with another adapter behind it.
  ASSERT_EQ(executor_->add_adapter(adapters_[1]), places_[0]);
  executor_->release(0);
  const auto with_another = run_step(*executor_, {stretch});
  EXPECT_GT(max_difference(with_another, before), 1e-3F);
  const int32_t moved = executor_->add_adapter(adapters_[0]);
  ASSERT_EQ(moved, places_[1]);
  executor_->release(0);
  EXPECT_EQ(run_step(*executor_, {{.tokens = k_tokens, .set = {{places_[2], 0.5F}, {moved, 1}}}}),
            before);
}

TEST_P(ExecutorOf, OnlyWantedLogitsComeBackAndTheyAreTheSame) {
  StepPlan plan = plan_of({{.seq_id = 0, .tokens = k_tokens, .set = wearing({{0, 1}})},
                           {.seq_id = 1, .tokens = k_others, .set = wearing({{1, 1}})}});
  const auto fresh = make_executor(model_, 64, adapters_);
  const auto all = fresh->run(plan);
  ASSERT_TRUE(all);
  const size_t n_vocab = model_->hparams().n_vocab;
  const std::vector<size_t> wanted{1, 4, 7};
  for (size_t row = 0; row < plan.rows.size(); ++row)
    plan.rows[row].wants_logits = std::ranges::count(wanted, row) > 0;
  const auto some = executor_->run(plan);
  ASSERT_TRUE(some);
  ASSERT_EQ(some->size(), wanted.size() * n_vocab);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(max_difference(some->subspan(i * n_vocab, n_vocab),
                             all->subspan(wanted[i] * n_vocab, n_vocab)),
              k_tolerance);
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, ExecutorOf, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

TEST(Executor, AHundredAdaptersOnOneTokenFitTheGraph) {
  const TempDir dir;
  const auto model = load_tiny(tiny_mixtral(), dir);
  std::vector<std::shared_ptr<const Adapter>> adapters;
  std::vector<Worn> worn;
  for (int32_t i = 0; i < 100; ++i) {
    adapters.push_back(
        make_random_adapter(model->info.uses, 1 + i % 4, 0.01F, static_cast<uint64_t>(i)));
    worn.push_back({i, 1});
  }
  const auto executor = make_executor(model, 64, adapters);
  const auto logits = run_step(*executor, {{.tokens = k_tokens, .set = worn}});
  EXPECT_GT(max_difference(logits, run_alone(model, {}, {.tokens = k_tokens})), 1e-3F);
}

TEST(Executor, AStepThatDoesNotFitChangesNothing) {
  const TempDir dir;
  const auto executor = make_executor(load_tiny(tiny_llama(), dir), 8);
  const auto before = run_step(*executor, {{.tokens = k_tokens}});
  const auto refused = executor->run(plan_of({{.seq_id = 1, .tokens = k_tokens}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_overflow);
  EXPECT_EQ(executor->n_free_tokens(), 0U);
  EXPECT_EQ(executor->n_tokens(0), k_tokens.size());
  EXPECT_EQ(executor->n_tokens(1), 0U);
  executor->release(0);
  EXPECT_EQ(run_step(*executor, {{.tokens = k_tokens}}), before);
}

TEST(Executor, RowsThatNameNothingAreRefused) {
  const TempDir dir;
  const auto executor = make_executor(load_tiny(tiny_llama(), dir));
  const std::vector<StepPlan> wrong{
      {},
      plan_of({{.tokens = {-1}}}),
      plan_of({{.tokens = {48}}}),
      plan_of({{.tokens = {1}, .set = {{0, 1.0F}}}}),
      {.rows = {{.token = 1, .i_set = 3}}, .sets = {{}}},
      plan_of({{.seq_id = -1, .tokens = {1}}}),
      plan_of({{.tokens = {1}, .first_pos = -1}}),
      plan_of({{.tokens = {1}}, {.tokens = {2}}}),
      plan_of({{.tokens = {1}, .first_pos = 1}}),
      plan_of({{.tokens = {1}}, {.tokens = {2}, .first_pos = 2}}),
  };
  for (const auto &plan : wrong) {
    const auto refused = executor->run(plan);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_EQ(executor->n_free_tokens(), 64U);
  }
}

TEST(Executor, ARowThatIsNotFiniteSpoilsNoOtherSequenceInThePortableForm) {
  const TempDir dir;
  const auto model = load_tiny(tiny_llama(), dir);
  const auto adapter = make_random_adapter(model->info.uses, 2, 1, 1);
  const auto fresh = [&] {
    auto executor =
        std::make_unique<Executor>(model, Executor::Options{.kv = {.n_ctx = 256},
                                                            .cache_type = GGML_TYPE_F32,
                                                            .attention = AttentionForm::portable});
    executor->add_adapter(adapter);
    return executor;
  };
  // Enough tokens for attention in tiles, where masked cells are still multiplied by 0.
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 70; ++i) tokens.push_back(i % 40);
  const Stretch healthy{.seq_id = 1, .tokens = tokens};
  const auto alone = run_step(*fresh(), {healthy});

  const Stretch spoiling{.seq_id = 0, .tokens = tokens, .set = {{0, 3e38F}}};

  for (const bool healthy_first : {false, true}) {
    const auto executor = fresh();
    const auto together = run_step(
        *executor, healthy_first ? std::vector{healthy, spoiling} : std::vector{spoiling, healthy});
    const auto half = [&](bool first) {
      return std::span(together).subspan(first ? 0 : alone.size(), alone.size());
    };
    const auto is_finite = [](float logit) { return std::isfinite(logit); };
    EXPECT_FALSE(std::ranges::all_of(half(!healthy_first), is_finite));
    EXPECT_LT(max_difference(alone, half(healthy_first)), k_tolerance);

    executor->release(0);
    executor->release(1);
    EXPECT_LT(max_difference(alone, run_step(*executor, {{.seq_id = 2, .tokens = tokens}})),
              k_tolerance);
  }
}

/// The same answers with and without adapters, but for how inputs are rounded.
void expect_same_answers(const std::shared_ptr<const LoadedModel> &one,
                         const std::shared_ptr<const LoadedModel> &other) {
  const auto adapter = make_random_adapter(one->info.uses, 4, 0.3F, 5);
  for (const AdapterSet &set : {AdapterSet{}, AdapterSet{{0, 1.0F}}}) {
    const Stretch stretch{.tokens = k_tokens, .set = set};
    EXPECT_LT(
        max_difference(run_alone(one, {adapter}, stretch), run_alone(other, {adapter}, stretch)),
        5e-2F)
        << one->info.name;
  }
}

TEST(Executor, InterleavedWeightsGiveThePlainResultWithAndWithoutAdapters) {
  const TempDir dir;
  for (TinyModel tiny : {tiny_llama(), tiny_mixtral()}) {
    tiny.type = GGML_TYPE_Q4_0;
    const auto plain = load_tiny(tiny, dir, WeightOptions::as_stored());
    const auto interleaved = load_tiny(tiny, dir, {.layout = {.pack = false}});
    if (interleaved->store->plan().count(WeightLayout::interleaved) == 0)
      GTEST_SKIP() << "this CPU has no interleaved layout for Q4_0";
    expect_same_answers(plain, interleaved);
  }
}

TEST(Executor, PackedWeightsGiveThePlainResultWithAndWithoutAdapters) {
  const TempDir dir;
  for (TinyModel tiny : all_tiny_models()) {
    tiny.hparams.n_layer = 2;  // each layer magnifies what rounding does
    for (const ggml_type type : {GGML_TYPE_Q4_1, GGML_TYPE_Q8_0}) {
      tiny.type = type;
      const auto plain = load_tiny(tiny, dir, WeightOptions::as_stored());
      const auto packed = load_tiny(tiny, dir);
      if (packed->store->plan().count(WeightLayout::packed) == 0)
        GTEST_SKIP() << "this CPU has no products of ours";
      EXPECT_EQ(plain->store->plan().count(WeightLayout::packed), 0U);
      expect_same_answers(plain, packed);
    }
  }
}

TEST(Executor, PackedWeightsGiveTheSameBitsOnAnyNumberOfThreads) {
  const TempDir dir;
  for (TinyModel tiny : {tiny_llama(), tiny_mixtral()}) {
    tiny.type = GGML_TYPE_Q8_0;
    const auto model = load_tiny(tiny, dir);
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < 60; ++i) tokens.push_back(i % 40);
    const auto run_with = [&](uint32_t n_threads) {
      const auto executor = make_executor(model, 64, {}, LoraForm::automatic, n_threads);
      return run_step(*executor, {{.tokens = tokens}});
    };
    const auto wanted = run_with(1);
    for (const uint32_t n_threads : {2U, 3U, 4U})
      EXPECT_EQ(run_with(n_threads), wanted) << tiny.name << ", " << n_threads << " threads";
  }
}

}  // namespace
}  // namespace patchbay
