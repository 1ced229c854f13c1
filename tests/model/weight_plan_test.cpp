#include "model/weight_plan.h"

#include <gmock/gmock.h>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"
#include "kernels/product.h"

namespace patchbay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<float> k_matrix(32 * 16, 0.5F);
const std::vector<float> k_vector(16, 2.0F);

GgufBuilder sound() {
  GgufBuilder file;
  file.add_f32("layer.weight", {32, 16}, k_matrix).add_f32("norm.weight", {16}, k_vector);
  return file;
}

/// A linear weight with an optional bias, and a vector.
class WeightPlanTest : public testing::Test {
 protected:
  WeightPlanTest() {
    table_.linear(linear_, "layer", 32, 16);
    table_.vector(norm_, "norm.weight", 16);
  }

  [[nodiscard]] WeightPlan plan(const GgufBuilder &builder) const {
    const auto file = GgufFile::open(dir_.write("model.gguf", builder.bytes()));
    return plan_weights(file, table_, {});
  }

  [[nodiscard]] std::string refusal(const GgufBuilder &builder) const {
    return load_failure([&] { (void)plan(builder); });
  }

  TempDir dir_;
  LinearWeights linear_;
  Weight norm_;
  TensorTable table_;
};

TEST_F(WeightPlanTest, NamesTheMissingTensor) {
  GgufBuilder file;
  file.add_f32("layer.weight", {32, 16}, k_matrix);
  EXPECT_THAT(refusal(file), HasSubstr("norm.weight is missing"));
}

TEST_F(WeightPlanTest, NamesTensorsThatNothingReads) {
  EXPECT_THAT(refusal(sound().add_f32("extra.weight", {16}, k_vector)),
              testing::AllOf(HasSubstr("1 tensor(s) that its architecture does not read"),
                             HasSubstr("extra.weight")));
}

TEST_F(WeightPlanTest, NamesBothShapes) {
  GgufBuilder file;
  file.add_f32("layer.weight", {16, 32}, k_matrix).add_f32("norm.weight", {16}, k_vector);
  EXPECT_THAT(refusal(file),
              HasSubstr("layer.weight has incorrect shape: want [32, 16], found [16, 32]"));
}

TEST_F(WeightPlanTest, RefusesTypesThatCannotBeComputedWith) {
  GgufBuilder file;
  file.add_f32("layer.weight", {32, 16}, k_matrix);
  file.add_tensor("norm.weight", GGML_TYPE_F16, {16}, std::string(32, '\0'));
  EXPECT_THAT(refusal(file),
              HasSubstr("norm.weight has a type that cannot be used here: want F32, found f16"));
  GgufBuilder integers;
  integers.add_tensor("layer.weight", GGML_TYPE_I32, {32, 16}, std::string(32 * 16 * 4, '\0'));
  integers.add_f32("norm.weight", {16}, k_vector);
  EXPECT_THAT(refusal(integers), HasSubstr("layer.weight has a type that cannot be used here"));
}

TEST_F(WeightPlanTest, NamesWhatTheFileHasAndLeavesTheWeightsAlone) {
  norm_.name = "as before";
  const auto [weights, tensors] = plan(sound());
  ASSERT_EQ(weights.size(), 2U);
  EXPECT_EQ(weights[0].name, "layer.weight");
  EXPECT_EQ(weights[0].i_spec, 0U);
  EXPECT_EQ(weights[1].name, "norm.weight");
  EXPECT_EQ(weights[1].i_spec, 2U);  // after the bias
  EXPECT_THAT(tensors, ElementsAre(ElementsAre(0U), ElementsAre(1U)));
  EXPECT_EQ(norm_.name, "as before");
}

/// A table with a head tied to it, and two matrices that read one input.
class SharedTensors : public testing::Test {
 protected:
  SharedTensors() {
    table_.table(embd_, "token_embd.weight", 64, 16);
    table_.head(head_, embd_, 64, 16);
    table_.linear(first_, "first", 64, 16);
    table_.linear(second_, "second", 64, 32);
    table_.join({&first_.weight, &second_.weight});
    GgufBuilder file;
    for (const auto &[name, n_out] : std::initializer_list<std::pair<const char *, int64_t>>{
             {"token_embd.weight", 16}, {"first.weight", 16}, {"second.weight", 32}}) {
      const size_t n_bytes = ggml_row_size(GGML_TYPE_Q8_0, 64) * static_cast<size_t>(n_out);
      file.add_tensor(name, GGML_TYPE_Q8_0, {64, n_out}, std::string(n_bytes, '\0'));
    }
    (void)dir_.write("model.gguf", file.bytes());
  }

  [[nodiscard]] WeightPlan plan(const WeightOptions &options) const {
    return plan_weights(GgufFile::open(dir_.path() / "model.gguf"), table_, options);
  }

  TempDir dir_;
  Weight embd_, head_;
  LinearWeights first_, second_;
  TensorTable table_;
};

TEST_F(SharedTensors, JoinsWeightsThatAreNotPackedAndLeavesATiedHeadToItsTable) {
  const auto [weights, tensors] = plan({.layout = {.interleave = false, .pack = false}});
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_EQ(weights[1].name, "first.weight");
  EXPECT_THAT(tensors, ElementsAre(ElementsAre(1U, 2U), ElementsAre(0U)));
}

TEST_F(SharedTensors, DoesNotJoinUnasked) {
  const auto [weights, tensors] = plan(WeightOptions::as_stored());
  EXPECT_THAT(tensors, ElementsAre(ElementsAre(0U), ElementsAre(1U), ElementsAre(2U)));
}

TEST_F(SharedTensors, PacksATiedHeadWithoutATensorOfItsOwnAndJoinsNothingThatIsPacked) {
  if (!has_product(Isa::avx2, WeightFormat::q8_0)) GTEST_SKIP() << "no products on such processors";
  const WeightPlan packed = plan({.layout = {.isa = Isa::avx2}});
  ASSERT_EQ(packed.weights.size(), 4U);
  EXPECT_EQ(packed.weights[1].name, "output.weight");
  EXPECT_EQ(packed.weights[1].stored_as, "token_embd.weight");
  EXPECT_EQ(packed.count(WeightLayout::packed), 3U);
  EXPECT_EQ(packed.count(WeightLayout::as_stored), 1U);
  EXPECT_THAT(packed.tensors, ElementsAre(ElementsAre(0U), ElementsAre(2U), ElementsAre(3U)));
}

}  // namespace
}  // namespace patchbay
