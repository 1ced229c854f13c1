#include <gtest/gtest.h>

#include "engine/step_support.h"
#include "lora/random_adapter.h"

namespace patchbay {
namespace {

const std::vector<int32_t> k_tokens{5, 40, 2, 19, 33, 7};

/// Matrices of 256 columns, so that the types with blocks of 256 fit as well.
TinyModel wide(ggml_type type) {
  TinyModel model = tiny_llama();
  model.hparams.n_embd = 256;
  model.hparams.n_embd_head = 64;
  model.hparams.n_rot = 64;
  model.hparams.n_ff = 512;
  model.hparams.n_layer = 1;
  model.type = type;
  return model;
}

/// Share of the numbers' variance that `other` does not have in common with `one`.
double relative_error(const std::vector<float> &one, const std::vector<float> &other) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    error += std::pow(one[i] - other[i], 2);
    size += std::pow(one[i], 2);
  }
  return error / size;
}

class QuantType : public testing::TestWithParam<ggml_type> {
 protected:
  void expect_works(const WeightOptions &options);
};

void QuantType::expect_works(const WeightOptions &options) {
  const TempDir dir;
  const auto exact = load_tiny(wide(GGML_TYPE_F32), dir);
  const auto model = load_tiny(wide(GetParam()), dir, options);
  const auto adapter = make_random_adapter(model->info.uses, 8, 0.3F, 1);
  const auto base = run_alone(model, {}, {.tokens = k_tokens});
  const auto adapted = run_alone(model, {adapter}, {.tokens = k_tokens, .set = {{0, 1.0F}}});
  // Two bits per weight lose up to about a third of random weights' variance; a wrong reading loses
  // all of it.
  EXPECT_LT(relative_error(run_alone(exact, {}, {.tokens = k_tokens}), base), 0.5);
  EXPECT_LT(relative_error(run_alone(exact, {adapter}, {.tokens = k_tokens, .set = {{0, 1.0F}}}),
                           adapted),
            0.5);
  EXPECT_GT(max_difference(base, adapted), 1e-3F);
}

TEST_P(QuantType, LoadsComputesAndWearsAdapters) { expect_works({}); }

TEST_P(QuantType, LoadsComputesAndWearsAdaptersAsStored) {
  expect_works(WeightOptions::as_stored());
}

INSTANTIATE_TEST_SUITE_P(AllThatGgmlWrites, QuantType,
                         testing::Values(GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q4_0,
                                         GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1,
                                         GGML_TYPE_Q8_0, GGML_TYPE_Q2_K, GGML_TYPE_Q3_K,
                                         GGML_TYPE_Q4_K, GGML_TYPE_Q5_K, GGML_TYPE_Q6_K,
                                         GGML_TYPE_IQ4_NL, GGML_TYPE_IQ4_XS, GGML_TYPE_IQ3_S,
                                         GGML_TYPE_IQ2_S, GGML_TYPE_MXFP4),
                         [](const auto &param) { return ggml_type_name(param.param); });

}  // namespace
}  // namespace patchbay
