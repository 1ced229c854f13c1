#include "model/weight_store.h"

#include <gmock/gmock.h>

#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "gguf/load_failure.h"

namespace patchbay {
namespace {

using testing::HasSubstr;

const std::vector<float> k_matrix(32 * 16, 0.5F);
const std::vector<float> k_vector(16, 2.0F);

struct Weights {
  LinearWeights linear;
  Weight norm;
};

TensorTable table_of(Weights &weights) {
  TensorTable table;
  table.linear(weights.linear, "layer", 32, 16);
  table.vector(weights.norm, "norm.weight", 16);
  return table;
}

GgufBuilder sound() {
  GgufBuilder file;
  file.add_f32("layer.weight", {32, 16}, k_matrix).add_f32("norm.weight", {16}, k_vector);
  return file;
}

class WeightStoreTest : public testing::Test {
 protected:
  std::unique_ptr<WeightStore> load(const GgufBuilder &builder) {
    const auto path = dir_.write("model.gguf", builder.bytes());
    weights_ = {};
    return std::make_unique<WeightStore>(std::make_shared<const GgufFile>(GgufFile::open(path)),
                                         table_of(weights_), WeightOptions{}, LoadProgress{});
  }

  std::string refusal(const GgufBuilder &builder) {
    return load_failure([&] { (void)load(builder); });
  }

  TempDir dir_;
  Weights weights_;
};

TEST_F(WeightStoreTest, BindsWhatIsThereAndLeavesOptionalOnesEmpty) {
  const auto store = load(sound());
  EXPECT_EQ(weights_.linear.weight.name, "layer.weight");
  EXPECT_EQ(weights_.linear.weight.tensor->ne[0], 32);
  EXPECT_EQ(static_cast<const float *>(weights_.norm.tensor->data)[15], 2.0F);
  EXPECT_FALSE(weights_.linear.bias);
  EXPECT_EQ(store->copied_bytes(), 0U);
}

TEST_F(WeightStoreTest, CopiesTensorsThatLieMisaligned) {
  GgufBuilder file;
  file.alignment(8);
  // The first tensor's odd size leaves the second at a multiple of 8 that is none of 32.
  file.add_f32("layer.weight", {32, 16}, k_matrix).add_f32("layer.bias", {16}, k_vector);
  file.add_f32("norm.weight", {16}, k_vector);
  const auto store = load(file);
  EXPECT_EQ(store->mapped_bytes() + store->copied_bytes(),
            (k_matrix.size() + 2 * k_vector.size()) * sizeof(float));
  EXPECT_EQ(static_cast<const float *>(weights_.norm.tensor->data)[3], 2.0F);
  EXPECT_EQ(static_cast<const float *>(weights_.linear.weight.tensor->data)[3], 0.5F);
}

TEST_F(WeightStoreTest, NamesTheMissingTensor) {
  GgufBuilder file;
  file.add_f32("layer.weight", {32, 16}, k_matrix);
  EXPECT_THAT(refusal(file), HasSubstr("norm.weight is missing"));
}

TEST_F(WeightStoreTest, NamesTensorsThatNothingReads) {
  EXPECT_THAT(refusal(sound().add_f32("extra.weight", {16}, k_vector)),
              testing::AllOf(HasSubstr("1 tensor(s) that its architecture does not read"),
                             HasSubstr("extra.weight")));
}

TEST_F(WeightStoreTest, NamesBothShapes) {
  GgufBuilder file;
  file.add_f32("layer.weight", {16, 32}, k_matrix).add_f32("norm.weight", {16}, k_vector);
  EXPECT_THAT(refusal(file),
              HasSubstr("layer.weight has incorrect shape: want [32, 16], found [16, 32]"));
}

TEST_F(WeightStoreTest, RefusesTypesThatCannotBeComputedWith) {
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

}  // namespace
}  // namespace patchbay
