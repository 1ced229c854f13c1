#include <gmock/gmock.h>

#include <cmath>
#include <list>

#include "engine/core_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

using testing::Each;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<int32_t> k_prompt{3, 9, 27, 1, 9, 14, 2, 5, 40, 8, 31, 7};
// A row's product in another order of sums.
constexpr float k_tolerance = 1e-5F;

Request embed(std::vector<int32_t> prompt, Pooling pooling,
              const std::vector<WornAdapter> &worn = {}) {
  Request request{.prompt = std::move(prompt), .embedding = pooling};
  if (!worn.empty()) request.spans = {{0, worn}};
  return request;
}

void run(EngineCore &core) {
  while (core.step()) {
  }
}

std::vector<float> take(Running &running) {
  running.drain();
  EXPECT_TRUE(running.end && !running.end->error);
  EXPECT_THAT(running.choices[0].tokens, IsEmpty());
  return running.embedding;
}

std::vector<float> embed_alone(const std::shared_ptr<const LoadedModel> &model,
                               const Request &request) {
  return run_cold(model, request).embedding;
}

std::vector<float> row(const std::vector<float> &rows, size_t i, size_t n) {
  const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(i * n);
  return {begin, begin + static_cast<std::ptrdiff_t>(n)};
}

/// The model's head, F32, times each hidden state: F32 [n_vocab, n_tokens].
std::vector<float> times_head(const LoadedModel &model, const std::vector<float> &hidden) {
  const HParams &hp = model.hparams();
  const auto *head = static_cast<const float *>(model.weights.output.tensor->data);
  std::vector<float> logits;
  for (size_t i = 0; i < hidden.size(); i += hp.n_embd) {
    for (size_t k = 0; k < hp.n_vocab; ++k) {
      double sum = 0;
      for (size_t j = 0; j < hp.n_embd; ++j) sum += double{head[k * hp.n_embd + j]} * hidden[i + j];
      logits.push_back(static_cast<float>(sum));
    }
  }
  return logits;
}

class EmbeddingTest : public testing::Test {
 protected:
  EmbeddingTest() : model_(load_tiny(tiny_llama(), dir_)) {}

  [[nodiscard]] std::shared_ptr<const Adapter> adapter(uint64_t seed) const {
    return make_random_adapter(model_->info.uses, 3, 0.2F, seed);
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
};

/// The logits are compared with PEFT and torch elsewhere.
TEST_F(EmbeddingTest, HiddenStatesTimesTheHeadAreTheLogitsInEveryFamily) {
  for (const auto &tiny : {tiny_llama(), tiny_tied_llama(), tiny_mixtral(), tiny_gemma3()}) {
    SCOPED_TRACE(tiny.name);
    const auto model = load_tiny(tiny, dir_);
    const auto hidden = embed_alone(model, embed(k_prompt, Pooling::none));
    ASSERT_THAT(hidden, SizeIs(k_prompt.size() * model->hparams().n_embd));
    const Running logits =
        run_cold(model, {.prompt = k_prompt, .n_predict = 0, .prompt_logits = true});
    EXPECT_LT(max_difference(times_head(*model, hidden), logits.logits), 10 * k_tolerance);
  }
}

TEST_F(EmbeddingTest, AFoldedModelGivesThePlainOnes) {
  for (const auto &tiny : {tiny_llama(), tiny_gemma3()}) {
    const auto request = embed(k_prompt, Pooling::mean);
    EXPECT_LT(max_difference(embed_alone(load_tiny(tiny, dir_), request),
                             embed_alone(load_tiny(folded(tiny), dir_), request)),
              10 * k_tolerance);
  }
}

TEST_F(EmbeddingTest, PoolingIsOfTheHiddenStatesOfTheTokens) {
  const size_t n_embd = model_->hparams().n_embd;
  const auto rows = embed_alone(model_, embed(k_prompt, Pooling::none));
  EXPECT_EQ(embed_alone(model_, embed(k_prompt, Pooling::cls)), row(rows, 0, n_embd));
  EXPECT_EQ(embed_alone(model_, embed(k_prompt, Pooling::last)),
            row(rows, k_prompt.size() - 1, n_embd));
  std::vector<float> mean(n_embd);
  for (size_t i = 0; i < rows.size(); ++i)
    mean[i % n_embd] += rows[i] / static_cast<float>(k_prompt.size());
  EXPECT_LT(max_difference(embed_alone(model_, embed(k_prompt, Pooling::mean)), mean), k_tolerance);
}

TEST_F(EmbeddingTest, AdaptersChangeItAndSpansDecideWhere) {
  const size_t n_embd = model_->hparams().n_embd;
  const WornAdapter worn{adapter(1), 1};
  const auto base = embed_alone(model_, embed(k_prompt, Pooling::none));
  const auto adapted = embed_alone(model_, embed(k_prompt, Pooling::none, {worn}));
  Request late = embed(k_prompt, Pooling::none);
  late.spans = {{0, {}}, {5, {worn}}};
  const auto from_five = embed_alone(model_, late);
  for (size_t i = 0; i < k_prompt.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_NE(row(adapted, i, n_embd), row(base, i, n_embd));
    EXPECT_EQ(row(from_five, i, n_embd) == row(base, i, n_embd), i < 5);
  }
  EXPECT_EQ(embed_alone(model_, embed(k_prompt, Pooling::none, {{worn.adapter, 0}})), base);
}

/// Answers, logits and embeddings of all kinds, wearing this and that, in steps of a few tokens,
/// with too little memory for all at once.
TEST_F(EmbeddingTest, BatchedEqualsAlone) {
  const auto one = adapter(1);
  const auto two = adapter(2);
  std::vector<Request> requests;
  const std::vector<std::vector<WornAdapter>> worn{
      {}, {{one, 1}}, {{two, 0.5F}}, {{one, 1}, {two, -1}}};
  for (const Pooling pooling : {Pooling::mean, Pooling::none, Pooling::last, Pooling::cls}) {
    for (const auto &wears : worn) requests.push_back(embed(k_prompt, pooling, wears));
  }
  for (const auto &wears : worn) {
    requests.push_back({.prompt = k_prompt,
                        .spans = {{0, wears}},
                        .sampling = {.temperature = 0},
                        .n_predict = 30,
                        .n_logprobs = 1});
    requests.push_back(
        {.prompt = k_prompt, .spans = {{0, wears}}, .n_predict = 0, .prompt_logits = true});
  }
  for (const uint32_t n_ctx : {256U, 48U}) {
    const auto core = make_core(
        model_,
        {.n_ctx = n_ctx, .limits = {.n_ubatch = 20, .n_prefill_beside = 10, .n_seqs_max = 16}});
    std::list<Running> running;
    for (const auto &request : requests) core->enqueue(running.emplace_back(request).job);
    run(*core);
    for (auto &one_of : running) {
      one_of.drain();
      const Running alone = run_cold(model_, one_of.job->request);
      EXPECT_EQ(one_of.embedding, alone.embedding);
      EXPECT_EQ(one_of.choices, alone.choices);
      EXPECT_EQ(one_of.logits, alone.logits);
    }
    EXPECT_EQ(core->stats().n_preemptions > 0, n_ctx == 48);
  }
}

TEST_F(EmbeddingTest, ThePrefixCacheServesOnlyWhatReadsTheLastToken) {
  const auto core = make_core(model_);
  const auto ask = [&](Request request) {
    Running running(std::move(request));
    core->enqueue(running.job);
    run(*core);
    return std::pair(take(running), running.end->usage.n_tokens_cached);
  };
  for (const Pooling pooling : {Pooling::mean, Pooling::none, Pooling::cls, Pooling::last}) {
    const auto alone = embed_alone(model_, embed(k_prompt, pooling));
    for (int i = 0; i < 2; ++i) {
      const auto [vector, n_cached] = ask(embed(k_prompt, pooling));
      EXPECT_EQ(vector, alone);
      EXPECT_EQ(n_cached > 0, pooling == Pooling::last) << static_cast<int>(pooling);
    }
  }
}

TEST_F(EmbeddingTest, ThePortableStepGivesTheSameUpToRounding) {
  const auto one = adapter(1);
  const auto ask = [&](LoraForm form) {
    const auto executor = make_executor(model_, 64, {one}, form);
    StepPlan plan = plan_of(
        {{.seq_id = 0, .tokens = k_prompt, .set = {{0, 1}}}, {.seq_id = 1, .tokens = k_prompt}});
    // Of the first every row, of the second every other one, and logits of the rest.
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      plan.rows[i].wants_hidden = i < k_prompt.size() || i % 2 == 0;
      plan.rows[i].wants_logits = !plan.rows[i].wants_hidden;
    }
    const auto logits = executor->run(plan);
    EXPECT_TRUE(logits);
    std::vector<float> all(logits->begin(), logits->end());
    EXPECT_THAT(all, SizeIs(k_prompt.size() / 2 * model_->hparams().n_vocab));
    const auto hidden = executor->hidden();
    EXPECT_THAT(hidden, SizeIs(k_prompt.size() * 3 / 2 * model_->hparams().n_embd));
    all.insert(all.end(), hidden.begin(), hidden.end());
    return all;
  };
  EXPECT_LT(max_difference(ask(LoraForm::fused), ask(LoraForm::portable)), 10 * k_tolerance);
}

TEST_F(EmbeddingTest, NumbersThatAreNotFiniteEndTheirOwnRequest) {
  const auto core = make_core(model_);
  const auto huge = make_random_adapter(model_->info.uses, 3, 1e18F, 1);
  Running bad(embed(k_prompt, Pooling::mean, {{huge, 3e38F}}));
  Running good(embed(k_prompt, Pooling::mean));
  core->enqueue(bad.job);
  core->enqueue(good.job);
  run(*core);
  bad.drain();
  ASSERT_TRUE(bad.end && bad.end->error);
  EXPECT_EQ(bad.end->error->code, ErrorCode::invalid_argument);
  EXPECT_THAT(take(good), Each(testing::Truly([](float x) { return std::isfinite(x); })));
}

}  // namespace
}  // namespace patchbay
