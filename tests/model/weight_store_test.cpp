#include "model/weight_store.h"

#include <ggml.h>
#include <gmock/gmock.h>

#include <array>

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

/// Three linear weights of 64 inputs that read one input together, each filled with its own number.
class JoinedRows : public testing::Test {
 protected:
  std::unique_ptr<WeightStore> load(std::array<ggml_type, 3> types, std::array<int64_t, 3> n_out,
                                    const WeightOptions &options = {}) {
    GgufBuilder file;
    TensorTable table;
    for (size_t i = 0; i < 3; ++i) {
      const std::string stem = "part" + std::to_string(i);
      const std::vector<float> values(static_cast<size_t>(64 * n_out[i]),
                                      static_cast<float>(i + 1));
      std::string bytes(ggml_row_size(types[i], 64) * static_cast<size_t>(n_out[i]), '\0');
      ggml_quantize_chunk(types[i], values.data(), bytes.data(), 0, n_out[i], 64, nullptr);
      file.add_tensor(stem + ".weight", types[i], {64, n_out[i]}, bytes);
      table.linear(weights_[i], stem, 64, n_out[i]);
    }
    table.join({&weights_[0].weight, &weights_[1].weight, &weights_[2].weight});
    const auto path = dir_.write("model.gguf", file.bytes());
    return std::make_unique<WeightStore>(std::make_shared<const GgufFile>(GgufFile::open(path)),
                                         table, options, LoadProgress{});
  }

  [[nodiscard]] const ggml_tensor &tensor(size_t i) const { return *weights_[i].weight.tensor; }
  [[nodiscard]] float last_number(size_t i) const {
    return static_cast<const float *>(tensor(i).data)[ggml_nelements(&tensor(i)) - 1];
  }

  TempDir dir_;
  std::array<LinearWeights, 3> weights_;
};

constexpr std::array k_all_f32{GGML_TYPE_F32, GGML_TYPE_F32, GGML_TYPE_F32};

TEST_F(JoinedRows, LieInOneTensorOfWhichEachWeightIsAView) {
  const auto store = load(k_all_f32, {5, 16, 3});
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(tensor(i).view_src, tensor(0).view_src);
    EXPECT_EQ(weights_[i].weight.name, "part" + std::to_string(i) + ".weight");
    EXPECT_EQ(last_number(i), static_cast<float>(i + 1));
  }
  ASSERT_NE(tensor(0).view_src, nullptr);
  EXPECT_EQ(tensor(0).view_src->ne[1], 24);
  EXPECT_EQ(store->copied_bytes(), 24 * 64 * sizeof(float));
  EXPECT_EQ(store->mapped_bytes(), 0U);
}

TEST_F(JoinedRows, StayMappedWhenNotAskedFor) {
  const auto store = load(k_all_f32, {8, 16, 8}, {.join = false});
  EXPECT_EQ(tensor(0).view_src, nullptr);
  EXPECT_EQ(store->copied_bytes(), 0U);
  EXPECT_EQ(last_number(2), 3.0F);
}

TEST_F(JoinedRows, OfOtherTypesStayApart) {
  const auto store = load({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_F32}, {8, 8, 8},
                          {.layout = {.pack = false}});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(tensor(i).view_src, nullptr);
  EXPECT_EQ(store->copied_bytes(), 0U);
}

TEST_F(JoinedRows, AreRepackedTogetherOnlyWhereNoGroupOfRowsIsCut) {
  const WeightOptions only_interleaved{.layout = {.pack = false}};
  constexpr std::array k_all_q4_0{GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0};
  const auto whole = load(k_all_q4_0, {8, 16, 24}, only_interleaved);
  if (whole->n_interleaved() == 0) GTEST_SKIP() << "this CPU has no repacked layout for Q4_0";
  EXPECT_EQ(whole->n_interleaved(), 3U);
  EXPECT_NE(tensor(2).view_src, nullptr);
  const auto cut = load(k_all_q4_0, {8, 12, 24}, only_interleaved);
  EXPECT_EQ(cut->n_interleaved(), 2U);
  EXPECT_EQ(tensor(2).view_src, nullptr);
}

}  // namespace
}  // namespace patchbay
