// What adapters change beside adding a plain pair: DoRA, biases, norms, rows of tokens, whole
// matrices. Held to models whose weights were changed as the definitions say.

#include <gmock/gmock.h>

#include "engine/rich_adapter.h"
#include "engine/step_support.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

const std::vector<int32_t> k_tokens{3, 19, 42, 3, 8, 40, 11, 2};

struct NamedParts {
  const char *name;
  RichParts parts;
};

const NamedParts k_all_parts[] = {
    {"dora", {.dora = true}},
    {"lora_bias", {.lora_bias = true}},
    {"biases", {.biases = true}},
    {"norms", {.norms = true}},
    {"rows", {.rows = true}},
    {"matrices", {.matrices = true}},
    {"dora and all else",
     {.dora = true, .biases = true, .norms = true, .rows = true, .matrices = true}},
    {"all but dora",
     {.lora_bias = true, .biases = true, .norms = true, .rows = true, .matrices = true}}};

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// Rows of a weight, or of a table its columns, brought to other lengths.
void set_lengths(const FactorPair &pair, int64_t n_in, std::vector<float> &values) {
  const auto lengths = numbers_of(pair.magnitude);
  const bool is_table = pair.kind == UseKind::embed;
  const int64_t n_lines = is_table ? n_in : static_cast<int64_t>(lengths.size());
  const int64_t n_numbers = static_cast<int64_t>(values.size()) / n_lines;
  for (int64_t line = 0; line < n_lines; ++line) {
    const auto number = [&](int64_t i) -> float & {
      return values[at(is_table ? i * n_in + line : line * n_in + i)];
    };
    double sum = 0;
    for (int64_t i = 0; i < n_numbers; ++i) sum += static_cast<double>(number(i)) * number(i);
    const auto factor = static_cast<float>(lengths[at(line)] / std::sqrt(sum));
    for (int64_t i = 0; i < n_numbers; ++i) number(i) *= factor;
  }
}

/// W + t s B A.
void add_pair(const FactorPair &pair, float strength, std::vector<float> &values) {
  const auto a = numbers_of(pair.a);
  const auto b = numbers_of(pair.b);
  const bool is_table = pair.kind == UseKind::embed;
  const int64_t n_in = is_table ? pair.b.ne[1] : pair.a.ne[0];
  const int64_t n_out = is_table ? pair.a.ne[1] : pair.b.ne[1];
  const int64_t n_rank = pair.n_rank;
  for (int64_t row = 0; row < n_out * pair.b.ne[2]; ++row) {
    const int64_t e = row / n_out;
    for (int64_t in = 0; in < n_in; ++in) {
      double sum = 0;
      for (int64_t r = 0; r < n_rank; ++r) {
        sum += is_table ? b[at(in * n_rank + r)] * a[at(row * n_rank + r)]
                        : b[at(row * n_rank + r)] * a[at((e * n_rank + r) * n_in + in)];
      }
      values[at(row * n_in + in)] += strength * pair.scale * static_cast<float>(sum);
    }
  }
}

/// The weights of a model that wears the adapter at a strength, by their definitions.
void merge(const Adapter &adapter, float strength, const TensorSpec &spec,
           std::vector<float> &values) {
  if (const auto *pair = adapter.find(spec.name)) {
    add_pair(*pair, strength, values);
    if (pair->magnitude.n_elements() > 0) set_lengths(*pair, spec.ne[0], values);
  }
  for (const auto &replacement : adapter.replacements) {
    if (replacement.tensor != spec.name) continue;
    const auto value = numbers_of(replacement.value);
    for (size_t i = 0; i < value.size(); ++i) {
      const size_t n = at(spec.ne[0]);
      float &number =
          values[replacement.rows.empty() ? i : at(replacement.rows[i / n]) * n + i % n];
      number += strength * (value[i] - number);
    }
  }
  for (const auto &pair : adapter.pairs) {
    if (pair.bias.n_elements() == 0 || weight_of_bias(spec.name) != pair.target) continue;
    const auto bias = numbers_of(pair.bias);
    for (size_t i = 0; i < bias.size(); ++i) values[i] += strength * pair.scale * bias[i];
  }
}

class AdapterChangesInAModel : public testing::TestWithParam<TinyModel> {
 protected:
  void SetUp() override { model_ = load_tiny(GetParam(), dir_); }

  [[nodiscard]] std::shared_ptr<const Adapter> adapter(RichParts parts, uint64_t seed = 5) const {
    return make_rich_adapter(model_->info, 3, seed, parts);
  }

  TempDir dir_;
  std::shared_ptr<const LoadedModel> model_;
};

/// The model with the adapter's changes in its weights; biases that it lacks begin as zeros.
std::string merged_file(const TinyModel &model, const Adapter &adapter, float strength) {
  GgufBuilder file =
      build_tiny_model(model, [&](const TensorSpec &spec, std::vector<float> &values) {
        merge(adapter, strength, spec, values);
      });
  if (model.biases) return file.bytes();
  DecoderWeights unbound;
  const TensorTable table = make_tensor_table(*model.family, model.hparams, unbound);
  for (const auto &spec : table.specs()) {
    if (!spec.name.ends_with(".bias")) continue;
    std::vector<float> values(at(spec.ne[0]));
    merge(adapter, strength, spec, values);
    file.add_tensor(spec.name, GGML_TYPE_F32, {spec.ne[0]},
                    encode(GGML_TYPE_F32, spec.ne[0], values));
  }
  return file.bytes();
}

TEST_P(AdapterChangesInAModel, EqualTheModelWithItsWeightsChanged) {
  for (const auto &[name, parts] : k_all_parts) {
    auto worn = std::make_shared<Adapter>(*adapter(parts));
    // Changing the one tensor of a tied head would change both of its uses; PEFT's goldens hold
    // these.
    if (GetParam().tied_head) {
      std::erase_if(worn->pairs, [](const FactorPair &pair) {
        return pair.target == "output.weight" || pair.target == "token_embd.weight";
      });
      std::erase_if(worn->replacements, [](const Replacement &replacement) {
        return replacement.tensor == "output.weight" || replacement.tensor == "token_embd.weight";
      });
    }
    std::erase_if(worn->pairs, [](const FactorPair &pair) {
      return pair.target == "output.weight" && pair.bias.n_elements() > 0;  // no family has one
    });
    finish_adapter(*worn, model_->info);
    for (const float strength : {1.0F, 0.5F, 2.0F, -1.0F}) {
      const auto merged =
          load_model(dir_.write("merged.gguf", merged_file(GetParam(), *worn, strength)));
      const auto want = run_alone(merged, {}, {.tokens = k_tokens});
      for (const LoraForm form : {LoraForm::portable, LoraForm::fused}) {
        const auto got =
            run_alone(model_, {worn}, {.tokens = k_tokens, .set = {{0, strength}}}, form);
        EXPECT_LT(max_difference(got, want), 5e-4F) << name << " at " << strength;
      }
    }
  }
}

TEST_P(AdapterChangesInAModel, AgreeInBothFormsInAnyMix) {
  std::vector<std::shared_ptr<const Adapter>> adapters;
  uint64_t seed = 1;
  for (const auto &[name, parts] : k_all_parts) adapters.push_back(adapter(parts, seed++));
  adapters.push_back(make_random_adapter(model_->info.uses, 9, 0.2F, 77));
  const std::vector<AdapterSet> sets{{},
                                     {{0, 1}},
                                     {{8, 1}},
                                     {{0, 0.5F}, {8, -1}},
                                     {{6, 1}, {0, -0.5F}},
                                     {{1, 1}, {2, 2}, {3, -1}},
                                     {{4, 1}, {5, 0.5F}},
                                     {{7, 0.25F}, {6, 0.25F}, {3, 1}}};
  std::vector<Stretch> mix;
  for (const auto &set : sets)
    mix.push_back({.seq_id = static_cast<int32_t>(mix.size()), .tokens = k_tokens, .set = set});
  const auto portable = run_step(*make_executor(model_, 128, adapters, LoraForm::portable), mix);
  const auto fused = run_step(*make_executor(model_, 128, adapters, LoraForm::fused), mix);
  EXPECT_LT(max_difference(portable, fused), 5e-4F);
}

TEST_P(AdapterChangesInAModel, OfARowHaveTheSameBitsAloneAndAmongOthersOnAnyNumberOfThreads) {
  const std::vector<std::shared_ptr<const Adapter>> adapters{
      adapter({.dora = true, .biases = true, .norms = true, .rows = true}, 1),
      adapter({.lora_bias = true, .norms = true, .matrices = true}, 2),
      make_random_adapter(model_->info.uses, 5, 0.2F, 3)};
  const std::vector<AdapterSet> sets{{},       {{0, 1}},          {{1, 0.5F}},
                                     {{2, 1}}, {{0, -1}, {2, 1}}, {{0, 0.5F}, {1, 1}}};
  std::vector<Stretch> mix;
  for (const auto &set : sets) {
    mix.push_back(
        {.seq_id = static_cast<int32_t>(mix.size()), .tokens = {k_tokens[mix.size()]}, .set = set});
  }
  const size_t n_vocab = model_->hparams().n_vocab;
  for (const uint32_t n_threads : {1U, 3U}) {
    const auto together =
        run_step(*make_executor(model_, 64, adapters, LoraForm::fused, n_threads), mix);
    for (size_t i = 0; i < mix.size(); ++i) {
      const auto alone = run_alone(model_, adapters, {.tokens = mix[i].tokens, .set = mix[i].set});
      EXPECT_TRUE(std::ranges::equal(alone, std::span(together).subspan(i * n_vocab, n_vocab)))
          << "row " << i << " on " << n_threads << " threads";
    }
  }
}

TEST_P(AdapterChangesInAModel, AtStrengthZeroAreNotThereBitForBit) {
  const auto base = run_alone(model_, {}, {.tokens = k_tokens});
  for (const auto &[name, parts] : k_all_parts)
    EXPECT_EQ(run_alone(model_, {adapter(parts)}, {.tokens = k_tokens, .set = {{0, 0}}}), base)
        << name;
}

/// An adapter of one replacement and nothing else.
std::shared_ptr<const Adapter> only(const Adapter &adapter, const Replacement &replacement,
                                    const BaseInfo &base) {
  auto one = std::make_shared<Adapter>(adapter);
  one->pairs.clear();
  one->replacements = {replacement};
  finish_adapter(*one, base);
  return one;
}

TEST_P(AdapterChangesInAModel, ChangeLaterTokensIfTheyAreSaidToFeedTheCacheAndOnlyThen) {
  const auto rich = adapter({.biases = true, .norms = true});
  const auto later_token = [&](const std::shared_ptr<const Adapter> &worn, AdapterSet set) {
    const auto executor = make_executor(model_, 64, {worn});
    (void)run_step(*executor, {{.tokens = k_tokens, .set = std::move(set)}});
    return run_step(*executor,
                    {{.tokens = {5}, .first_pos = static_cast<int32_t>(k_tokens.size())}});
  };
  for (const auto &replacement : rich->replacements) {
    const auto worn = only(*rich, replacement, model_->info);
    LoraPool pool(model_->info, LoraPool::Form::packed);
    const bool feeds = pool.kv_digest({{worn.get(), 1}}) != Sha256Digest{};
    EXPECT_EQ(later_token(worn, {{0, 1}}) != later_token(worn, {}), feeds) << replacement.tensor;
    EXPECT_NE(run_alone(model_, {worn}, {.tokens = k_tokens, .set = {{0, 1}}}),
              run_alone(model_, {}, {.tokens = k_tokens}))
        << replacement.tensor;
  }
}

INSTANTIATE_TEST_SUITE_P(AllFamilies, AdapterChangesInAModel, testing::ValuesIn(all_tiny_models()),
                         [](const auto &param) { return param.param.name; });

}  // namespace
}  // namespace patchbay
