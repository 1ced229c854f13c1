// Any interleaving of requests gives each of them the answer that it gets alone on a fresh engine,
// whatever the prefix cache has of others.
// Every kernel computes a row's numbers in an order of its own, whatever else is in the step: with
// plain weights, packed and interleaved ones alike, over a cache of F32. So the comparison is
// exact: tokens, text and log-probabilities.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/cold_program.h"

namespace patchbay {
namespace {

struct Case {
  TinyModel model;
  WeightLayout layout = WeightLayout::as_stored;  ///< of its matrices
  uint32_t n_threads = 1;                         ///< of the program; the reference has one
  size_t cache_memory_bytes = 0;                  ///< the same

  /// For GoogleTest, which would print the bytes.
  friend void PrintTo(const Case &c, std::ostream *out) { *out << c.model.name; }
};

/// Each model meets other requests.
uint64_t seed_of(const std::string &name) {
  uint64_t seed = 2026;
  for (const char letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
  return seed;
}

bool has_layout(const WeightStore &store, WeightLayout layout) {
  const WeightPlan &plan = store.plan();
  return layout == WeightLayout::as_stored ? plan.count(layout) == plan.weights.size()
                                           : plan.count(layout) > 0;
}

class ColdReference : public testing::TestWithParam<Case> {};

TEST_P(ColdReference, AnyInterleavingEqualsEachRequestAlone) {
  TempDir dir;
  const auto &[tiny, layout, n_threads, cache_memory_bytes] = GetParam();
  const auto model = load_tiny(tiny, dir,
                               {.layout = {.interleave = layout == WeightLayout::interleaved,
                                           .pack = layout == WeightLayout::packed}});
  if (!has_layout(*model->store, layout))
    GTEST_SKIP() << "this processor has no such layout: " << to_string(layout);
  // Room for a long request and a half, so that most programs run out of it, and for half of the
  // adapters. Windows have memory by the seats: few, so that theirs runs out before the others'.
  Program program(model,
                  {.n_ctx = 104,
                   .block_size = 4,
                   .limits = {.n_ubatch = 24,
                              .n_prefill_beside = 7,
                              .n_seqs_max = tiny.hparams.n_swa > 0 ? 4U : 8U,
                              .adapter_bytes = size_of_adapters(*model) / 2},
                   .n_threads = n_threads,
                   .cache_memory_bytes = cache_memory_bytes},
                  seed_of(tiny.name));
  if (cache_memory_bytes > 0) program.draw_sessions();
  program.run(400);
  const Seen &seen = program.seen;
  EXPECT_GT(seen.n_steps, 1000U);
  EXPECT_GT(seen.n_compared, 270U);
  EXPECT_GT(seen.n_cancelled, 0U);
  EXPECT_GT(seen.n_preemptions, 5U);
  EXPECT_GT(seen.n_reloaded, 3U);
  EXPECT_EQ(seen.n_restored > 10, cache_memory_bytes > 0);
  EXPECT_EQ(seen.n_sessions > 5, cache_memory_bytes > 0);
  EXPECT_GT(seen.n_invoked_by_answers, 10U);
  EXPECT_GT(40 * seen.n_tokens_cached, seen.n_tokens_possible);
  fmt::print(
      "{} steps, {} answers equal, {} cancelled, {} preemptions, {} tokens cached of {}, {} "
      "answers "
      "invoke\n",
      seen.n_steps, seen.n_compared, seen.n_cancelled, seen.n_preemptions, seen.n_tokens_cached,
      seen.n_tokens_possible, seen.n_invoked_by_answers);
}

class RoomyCache : public testing::TestWithParam<Case> {};

TEST_P(RoomyCache, EachRequestFindsAllThatWasComputedBefore) {
  TempDir dir;
  const auto model = load_tiny(GetParam().model, dir);
  // Seats, though only one is ever taken: windows have memory for each of them.
  Program program(model, {.n_ctx = 6000, .block_size = 4, .limits = {.n_seqs_max = 1500}}, 2027);
  program.run_one_by_one(120);
  EXPECT_EQ(program.seen.n_tokens_cached, program.seen.n_tokens_possible);
  EXPECT_GT(program.seen.n_tokens_cached, 500U);
}

std::vector<Case> plain_cases() {
  std::vector<Case> cases;
  for (TinyModel &model : all_tiny_models()) cases.push_back({std::move(model)});
  return cases;
}

/// A cache that is too small, beside memory for about as many blocks, and sessions that come back.
std::vector<Case> host_tier_cases() {
  constexpr size_t k_about_20_blocks = 20 << 10U;
  std::vector<Case> cases;
  for (TinyModel model : {tiny_llama(), tiny_gemma3()}) {
    model.name += "_host_tier";
    cases.push_back({.model = std::move(model), .cache_memory_bytes = k_about_20_blocks});
  }
  return cases;
}

TinyModel of_type(TinyModel model, ggml_type type) {
  model.name += "_";
  model.name += ggml_type_name(type);
  model.type = type;
  return model;
}

/// Rows of 256 numbers, which types with blocks of 256 need.
TinyModel wide(TinyModel model) {
  model.hparams.n_embd = 256;
  model.hparams.n_embd_head = 64;
  model.hparams.n_rot = 64;
  model.hparams.n_ff = 256;
  model.hparams.n_layer = 1;
  return model;
}

std::vector<Case> packed_cases() {
  constexpr auto k_packed = WeightLayout::packed;
  std::vector<Case> cases;
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_1, GGML_TYPE_Q4_0}) {
    for (const TinyModel &model : {tiny_llama(), tiny_mixtral(), tiny_gemma3()})
      cases.push_back({of_type(model, type), k_packed});
  }
  cases.push_back({of_type(wide(tiny_llama()), GGML_TYPE_Q4_K), k_packed});
  cases.push_back({of_type(wide(tiny_mixtral()), GGML_TYPE_Q6_K), k_packed});
  cases.push_back({of_type(tiny_mixtral(), GGML_TYPE_Q5_1), k_packed, 2});
  return cases;
}

std::vector<Case> interleaved_cases() {
  std::vector<Case> cases;
  for (const TinyModel &model : {tiny_llama(), tiny_mixtral()})
    cases.push_back({of_type(model, GGML_TYPE_Q4_0), WeightLayout::interleaved});
  return cases;
}

/// ggml's products of quantised weights.
std::vector<Case> stored_cases() {
  return {{of_type(tiny_llama(), GGML_TYPE_Q8_0)},
          {of_type(tiny_mixtral(), GGML_TYPE_Q4_1)},
          {of_type(tiny_gemma3(), GGML_TYPE_F16)},
          {of_type(wide(tiny_llama()), GGML_TYPE_Q6_K)},
          {of_type(wide(tiny_llama()), GGML_TYPE_Q3_K)}};
}

std::string name_of(const testing::TestParamInfo<Case> &info) { return info.param.model.name; }

INSTANTIATE_TEST_SUITE_P(AllFamilies, ColdReference, testing::ValuesIn(plain_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(HostTier, ColdReference, testing::ValuesIn(host_tier_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(AsStored, ColdReference, testing::ValuesIn(stored_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Packed, ColdReference, testing::ValuesIn(packed_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Interleaved, ColdReference, testing::ValuesIn(interleaved_cases()),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Families, RoomyCache,
                         testing::Values(Case{tiny_llama()}, Case{tiny_mixtral()},
                                         Case{tiny_gemma3()}),
                         name_of);

}  // namespace
}  // namespace patchbay
