#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<int32_t> k_tokens{3, 17, 42, 3, 8, 30, 11, 1};

/// W += strength * scale * B A, in F32, for the numbers of the target's tensor.
void merge(const FactorPair &pair, float strength, std::vector<float> &values) {
  std::vector<float> a(static_cast<size_t>(pair.a.n_elements()));
  std::vector<float> b(static_cast<size_t>(pair.b.n_elements()));
  to_f32(pair.a, 0, a);
  to_f32(pair.b, 0, b);
  const bool is_table = pair.kind == UseKind::embed;
  const int64_t n_in = is_table ? pair.b.ne[1] : pair.a.ne[0];
  const int64_t n_out = is_table ? pair.a.ne[1] : pair.b.ne[1];
  const int64_t n_expert = pair.b.ne[2];
  const int64_t n_rank = pair.n_rank;
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  for (int64_t e = 0; e < n_expert; ++e) {
    for (int64_t out = 0; out < n_out; ++out) {
      for (int64_t in = 0; in < n_in; ++in) {
        float sum = 0;
        for (int64_t r = 0; r < n_rank; ++r) {
          // A table's A has one row per token and its B one row per embedding dimension.
          sum += is_table
                     ? b[at(in * n_rank + r)] * a[at(out * n_rank + r)]
                     : b[at((e * n_out + out) * n_rank + r)] * a[at((e * n_rank + r) * n_in + in)];
        }
        values[at((e * n_out + out) * n_in + in)] += strength * pair.scale * sum;
      }
    }
  }
}

std::shared_ptr<const Adapter> adapter_on(const AdaptableUse &use, float size) {
  return make_random_adapter(std::span(&use, 1), 3, size, 7);
}

class EveryTensorCounts : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override {
    model_ = load_tiny(GetParam(), dir_);
    base_ = run_alone(model_, {}, {.tokens = k_tokens});
  }

  std::vector<float> with(const std::shared_ptr<const Adapter> &adapter, float strength) {
    const std::vector<Worn> worn{{0, strength}};
    return run_alone(model_, {adapter}, {.tokens = k_tokens, .set = worn});
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
  std::vector<float> base_;
};

TEST_P(EveryTensorCounts, EveryMatrixOfTheTableIsAUse) {
  std::vector<std::string> tabled;
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*GetParam().family, GetParam().hparams, unbound);
  for (const auto &spec : table.specs()) {
    if (spec.role != TensorRole::vector) tabled.push_back(spec.name);
  }
  std::vector<std::string> used;
  for (const auto &use : model_->info.uses) used.push_back(use.name);
  EXPECT_THAT(used, testing::UnorderedElementsAreArray(tabled));
}

TEST_P(EveryTensorCounts, AnAdapterOnOneTensorMovesTheLogitsAndZeroStrengthDoesNot) {
  for (const auto &use : model_->info.uses) {
    const auto adapter = adapter_on(use, 0.5F);
    EXPECT_GT(max_difference(with(adapter, 1), base_), 1e-4F) << use.name;
    EXPECT_EQ(with(adapter, 0), base_) << use.name;
  }
}

TEST_P(EveryTensorCounts, LaterTokensNoticeAnAdapterIfItsUseIsSaidToFeedTheCacheAndOnlyThen) {
  const auto later_token = [&](const std::shared_ptr<const Adapter> &adapter, AdapterSet set) {
    const auto executor = make_executor(model_, 64, {adapter});
    (void)run_step(*executor, {{.tokens = k_tokens, .set = std::move(set)}});
    return run_step(*executor,
                    {{.tokens = {5}, .first_pos = static_cast<int32_t>(k_tokens.size())}});
  };
  size_t n_feeding = 0;
  for (const auto &use : model_->info.uses) {
    const auto adapter = adapter_on(use, 0.5F);
    EXPECT_EQ(later_token(adapter, {{0, 1}}) != later_token(adapter, {}), use.feeds_kv) << use.name;
    n_feeding += use.feeds_kv ? 1 : 0;
  }
  // The last layer's queries, attention output and feed-forward, and the head.
  const size_t n_last = GetParam().hparams.n_expert > 0 ? 7 : 6;
  EXPECT_EQ(n_feeding, model_->info.uses.size() - n_last);
}

TEST_P(EveryTensorCounts, SmallStrengthsActLinearly) {
  for (const auto &use : model_->info.uses) {
    // A tiny change may pick other experts, which is a jump by design; the router is held to it by
    // the merged weights.
    if (use.name.find("ffn_gate_inp") != std::string::npos) continue;
    const auto adapter = adapter_on(use, 0.5F);
    const auto one = with(adapter, 2e-3F);
    const auto two = with(adapter, 4e-3F);
    float most = 0;
    float bend = 0;
    for (size_t i = 0; i < base_.size(); ++i) {
      most = std::max(most, std::abs(two[i] - base_[i]));
      bend = std::max(bend, std::abs(two[i] - 2 * one[i] + base_[i]));
    }
    // Rounding of the logits themselves is about 1e-6.
    EXPECT_LT(bend, 0.05F * most + 1e-5F) << use.name;
  }
}

TEST_P(EveryTensorCounts, AnAdapterEqualsTheModelWithItsProductMergedIn) {
  for (const auto &use : model_->info.uses) {
    const auto adapter = adapter_on(use, 0.3F);
    // Merging into the one tensor of a tied head would change both of its uses; PEFT's goldens hold
    // these.
    if (GetParam().tied_head && (use.name == "output.weight" || use.name == "token_embd.weight"))
      continue;
    const auto merged_file =
        build_tiny_model(GetParam(), [&](const TensorSpec &spec, std::vector<float> &values) {
          if (spec.name == use.name) merge(adapter->pairs.front(), -1.5F, values);
        });
    const auto merged = load_model(dir_.write("merged.gguf", merged_file.bytes()));
    EXPECT_LT(max_difference(with(adapter, -1.5F), run_alone(merged, {}, {.tokens = k_tokens})),
              1e-4F)
        << use.name;
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, EveryTensorCounts, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

}  // namespace
}  // namespace patchbay
