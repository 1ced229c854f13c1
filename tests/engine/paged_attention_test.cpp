#include <gmock/gmock.h>

#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

// F32 throughout; the two forms sum in another order.
constexpr float k_tolerance = 1e-4F;

std::vector<int32_t> some_tokens(size_t n, int32_t seed = 0) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i)
    tokens.push_back((static_cast<int32_t>(i) * 7 + seed * 11 + 3) % 48);
  return tokens;
}

std::vector<int32_t> part(const std::vector<int32_t> &tokens, size_t first, size_t n) {
  const auto begin = tokens.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(std::min(n, tokens.size() - first))};
}

class PagedAttentionOf : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override { model_ = load_tiny(GetParam(), dir_); }

  [[nodiscard]] std::unique_ptr<Executor> executor(Executor::Options options = {}) const {
    options.kv.n_ctx = 256;
    options.kv.block_size = 4;
    if (options.cache_type == GGML_TYPE_F16) options.cache_type = GGML_TYPE_F32;
    return std::make_unique<Executor>(model_, options);
  }

  /// The logits of a sequence computed in steps of `n_chunk` tokens.
  [[nodiscard]] std::vector<float> in_chunks(Executor &executor, const std::vector<int32_t> &tokens,
                                             size_t n_chunk, int32_t seq_id = 0) const {
    std::vector<float> logits;
    for (size_t first = 0; first < tokens.size(); first += n_chunk) {
      const auto some = run_step(executor, {{.seq_id = seq_id,
                                             .tokens = part(tokens, first, n_chunk),
                                             .first_pos = static_cast<int32_t>(first)}});
      logits.insert(logits.end(), some.begin(), some.end());
    }
    return logits;
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
};

TEST_P(PagedAttentionOf, EqualsThePortableForm) {
  const auto tokens = some_tokens(40);
  const std::vector<Stretch> prompts{{.seq_id = 0, .tokens = tokens},
                                     {.seq_id = 5, .tokens = some_tokens(9, 1)}};
  const std::vector<Stretch> more{{.seq_id = 5, .tokens = {1, 2}, .first_pos = 9},
                                  {.seq_id = 0, .tokens = {7}, .first_pos = 40}};
  const auto paged = executor({.attention = AttentionForm::paged});
  const auto portable = executor({.attention = AttentionForm::portable});
  for (const auto &step : {prompts, more})
    EXPECT_LT(max_difference(run_step(*paged, step), run_step(*portable, step)), k_tolerance);
}

TEST_P(PagedAttentionOf, RowsOfAMixedStepHaveTheBitsOfEachAlone) {
  const auto tokens = some_tokens(33);
  const auto others = some_tokens(14, 2);
  const auto alone = in_chunks(*executor(), tokens, 33);
  const auto others_alone = in_chunks(*executor(), others, 14);
  const auto mixed = run_step(*executor({.n_threads = 2}),
                              {{.seq_id = 3, .tokens = others}, {.seq_id = 1, .tokens = tokens}});
  ASSERT_EQ(mixed.size(), alone.size() + others_alone.size());
  EXPECT_TRUE(std::equal(others_alone.begin(), others_alone.end(), mixed.begin()));
  EXPECT_TRUE(std::equal(alone.rbegin(), alone.rend(), mixed.rbegin()));
}

TEST_P(PagedAttentionOf, AnyChunkingOfAPromptGivesTheSameBits) {
  const auto tokens = some_tokens(37);
  const auto whole = in_chunks(*executor(), tokens, 37);
  for (const size_t n_chunk : {1U, 2U, 5U, 16U, 36U})
    EXPECT_EQ(in_chunks(*executor(), tokens, n_chunk), whole) << n_chunk;
}

TEST_P(PagedAttentionOf, WhereABlockLiesDoesNotMatter) {
  const auto tokens = some_tokens(20);
  const auto fresh = in_chunks(*executor(), tokens, 3);
  const auto used = executor();
  for (int32_t seq = 1; seq < 6; ++seq) (void)in_chunks(*used, some_tokens(7, seq), 7, seq);
  used->release(2);
  used->release(4);
  EXPECT_EQ(in_chunks(*used, tokens, 3), fresh);
}

TEST_P(PagedAttentionOf, ForksGoTheirOwnWays) {
  for (const auto form : {AttentionForm::paged, AttentionForm::portable}) {
    for (const size_t n_shared : {8U, 10U}) {  // at and within a block's borders
      const auto shared = some_tokens(n_shared);
      const auto tail = some_tokens(6, 3);
      const auto other_tail = some_tokens(6, 4);
      const auto forked = executor({.attention = form});
      (void)in_chunks(*forked, shared, 100);
      forked->fork(0, 1);
      EXPECT_EQ(forked->n_tokens(1), n_shared);
      const auto pos = static_cast<int32_t>(n_shared);
      const auto both = run_step(*forked, {{.seq_id = 0, .tokens = tail, .first_pos = pos},
                                           {.seq_id = 1, .tokens = other_tail, .first_pos = pos}});
      const auto own_way = [&](const std::vector<int32_t> &after) {
        const auto straight = executor({.attention = form});
        (void)in_chunks(*straight, shared, 100);
        return run_step(*straight, {{.tokens = after, .first_pos = pos}});
      };
      auto expected = own_way(tail);
      const auto other = own_way(other_tail);
      expected.insert(expected.end(), other.begin(), other.end());
      EXPECT_LT(max_difference(both, expected), k_tolerance);
      forked->release(0);
      forked->release(1);
      EXPECT_EQ(forked->n_free_tokens(), 256U);
    }
  }
}

TEST_P(PagedAttentionOf, AStepThatDoesNotFitLeavesEverythingAsItWas) {
  for (const auto form : {AttentionForm::paged, AttentionForm::portable}) {
    const auto executor =
        std::make_unique<Executor>(model_, Executor::Options{.kv = {.n_ctx = 24, .block_size = 4},
                                                             .cache_type = GGML_TYPE_F32,
                                                             .attention = form});
    (void)in_chunks(*executor, some_tokens(10), 100);
    executor->fork(0, 1);
    const KvSnapshot before = executor->kv_snapshot();
    const auto refused =
        executor->run(plan_of({{.seq_id = 1, .tokens = some_tokens(4), .first_pos = 10},
                               {.seq_id = 0, .tokens = some_tokens(12), .first_pos = 10}}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::context_overflow);
    const KvSnapshot after = executor->kv_snapshot();
    EXPECT_EQ(after.full, before.full);
    EXPECT_EQ(after.window, before.window);
    EXPECT_EQ(check_invariants(after), "");
    // The fork still has what it had.
    const auto next = run_step(*executor, {{.seq_id = 1, .tokens = {9}, .first_pos = 10}});
    const auto straight = this->executor({.attention = form});
    (void)in_chunks(*straight, some_tokens(10), 100);
    EXPECT_LT(max_difference(next, run_step(*straight, {{.tokens = {9}, .first_pos = 10}})),
              k_tolerance);
  }
}

TEST_P(PagedAttentionOf, InvariantsHoldAfterEachOfManySteps) {
  const auto executor = this->executor();
  for (int32_t i = 0; i < 40; ++i) {
    const int32_t seq_id = i % 5;
    const auto n = static_cast<size_t>(1 + i % 7);
    (void)run_step(*executor, {{.seq_id = seq_id,
                                .tokens = some_tokens(n, i),
                                .first_pos = static_cast<int32_t>(executor->n_tokens(seq_id))}});
    if (i % 6 == 3) executor->fork(seq_id, (seq_id + 2) % 5);
    if (i % 9 == 8) executor->release(seq_id);
    ASSERT_EQ(check_invariants(executor->kv_snapshot()), "") << i;
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, PagedAttentionOf, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

TEST(PagedAttention, OneSequenceMayHoldAllOfAContextThatIsNoMultipleOfABlock) {
  const TempDir dir;
  const auto executor = make_executor(load_tiny(tiny_llama(), dir), 10);
  EXPECT_EQ(executor->n_ctx(), 10U);
  EXPECT_EQ(executor->n_free_tokens(), 12U);
  (void)run_step(*executor, {{.tokens = some_tokens(10)}});
  const auto refused = executor->run(plan_of({{.tokens = {1}, .first_pos = 10}}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::context_overflow);
}

TEST(PagedAttention, ACacheOfQ80IsCloseToOneOfF32InBothForms) {
  const TempDir dir;
  TinyModel tiny = tiny_llama();
  tiny.hparams.n_embd_head = 32;
  tiny.hparams.n_rot = 32;
  const auto model = load_tiny(tiny, dir);
  const auto logits_with = [&](ggml_type type, AttentionForm form) {
    Executor executor(model, {.kv = {.n_ctx = 64}, .cache_type = type, .attention = form});
    return run_step(executor, {{.tokens = some_tokens(40)}});
  };
  const auto exact = logits_with(GGML_TYPE_F32, AttentionForm::paged);
  const auto paged = logits_with(GGML_TYPE_Q8_0, AttentionForm::paged);
  EXPECT_LT(max_difference(exact, paged), 0.05F);
  EXPECT_GT(max_difference(exact, paged), 0);
  EXPECT_LT(max_difference(exact, logits_with(GGML_TYPE_Q8_0, AttentionForm::portable)), 0.05F);
}

TEST(PagedAttention, ARowThatIsNotFiniteSpoilsNeitherItsPastNorOthers) {
  const TempDir dir;
  const auto model = load_tiny(tiny_llama(), dir);
  const auto adapter = make_random_adapter(model->info.uses, 2, 1, 1);
  const auto before = make_executor(model, 128, {adapter});
  const auto healthy = run_step(*before, {{.seq_id = 1, .tokens = some_tokens(9)}});
  const auto start = run_step(*before, {{.seq_id = 0, .tokens = some_tokens(5)}});

  const auto executor = make_executor(model, 128, {adapter});
  StepPlan plan = plan_of({{.seq_id = 1, .tokens = some_tokens(9)},
                           {.seq_id = 0, .tokens = some_tokens(5)},
                           {.seq_id = 0, .tokens = {3, 4}, .set = {{0, 3e38F}}, .first_pos = 5}});
  const auto logits = executor->run(plan);
  ASSERT_TRUE(logits);
  const auto n_finite = healthy.size() + start.size();
  EXPECT_TRUE(std::equal(healthy.begin(), healthy.end(), logits->begin()));
  EXPECT_TRUE(std::equal(start.begin(), start.end(),
                         logits->begin() + static_cast<ptrdiff_t>(healthy.size())));
  EXPECT_TRUE(std::ranges::none_of(logits->subspan(n_finite),
                                   [](float logit) { return std::isfinite(logit); }));
}

}  // namespace
}  // namespace patchbay
