#include "model/weight_store.h"

#include <ggml.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <map>

#include "base/error.h"
#include "base/temp_dir.h"
#include "gguf/gguf_builder.h"
#include "kernels/product.h"
#include "kernels/product_pack.h"

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
  const auto store =
      load({GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_F32}, {8, 8, 8}, {.layout = {.pack = false}});
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(tensor(i).view_src, nullptr);
  EXPECT_EQ(store->copied_bytes(), 0U);
}

TEST_F(JoinedRows, AreRepackedTogetherOnlyWhereNoGroupOfRowsIsCut) {
  const WeightOptions only_interleaved{.layout = {.pack = false}};
  constexpr std::array k_all_q4_0{GGML_TYPE_Q4_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_0};
  const auto whole = load(k_all_q4_0, {8, 16, 24}, only_interleaved);
  if (whole->plan().count(WeightLayout::interleaved) == 0)
    GTEST_SKIP() << "this CPU has no repacked layout for Q4_0";
  EXPECT_EQ(whole->plan().count(WeightLayout::interleaved), 3U);
  EXPECT_NE(tensor(2).view_src, nullptr);
  const auto cut = load(k_all_q4_0, {8, 12, 24}, only_interleaved);
  EXPECT_EQ(cut->plan().count(WeightLayout::interleaved), 2U);
  EXPECT_EQ(tensor(2).view_src, nullptr);
}

/// A looked-up table with a head tied to it, a matrix, experts and a vector.
class PackedWeights : public testing::Test {
 protected:
  static constexpr int64_t k_n_in = 64;
  // Whatever this processor has: packing needs no instruction set.
  static constexpr Isa k_isa = Isa::avx2;

  void SetUp() override {
    if (!has_product(k_isa, WeightFormat::q8_0)) GTEST_SKIP() << "no products on such processors";
    table_.table(embd_, "token_embd.weight", k_n_in, 24);
    table_.head(head_, embd_, k_n_in, 24);
    table_.linear(linear_, "layer", k_n_in, 40);
    table_.experts(experts_, "experts.weight", k_n_in, 16, 3);
    table_.vector(norm_, "norm.weight", 16);
    add("token_embd.weight", GGML_TYPE_Q8_0, {k_n_in, 24});
    add("layer.weight", GGML_TYPE_Q4_1, {k_n_in, 40});
    add("experts.weight", GGML_TYPE_Q5_0, {k_n_in, 16, 3});
    builder_.add_f32("norm.weight", {16}, k_vector);
  }

  void add(const std::string &name, ggml_type type, const std::vector<int64_t> &ne) {
    int64_t n_rows = 1;
    for (size_t i = 1; i < ne.size(); ++i) n_rows *= ne[i];
    std::vector<float> values(static_cast<size_t>(ne[0] * n_rows));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    std::string &bytes = bytes_[name];
    bytes.resize(ggml_row_size(type, ne[0]) * static_cast<size_t>(n_rows));
    ggml_quantize_chunk(type, values.data(), bytes.data(), 0, n_rows, ne[0], nullptr);
    builder_.add_tensor(name, type, ne, bytes);
  }

  std::unique_ptr<WeightStore> load(const LayoutOptions &layout = {.isa = k_isa},
                                    const LoadProgress &progress = {}) {
    const auto path = dir_.write("model.gguf", builder_.bytes());
    return std::make_unique<WeightStore>(std::make_shared<const GgufFile>(GgufFile::open(path)),
                                         table_, WeightOptions{.layout = layout}, progress);
  }

  /// The tiles of `weight` are those of the rows that `name` has in the file.
  void expect_tiles_of(const std::string &name, const Weight &weight) {
    ASSERT_NE(weight.packed, nullptr) << name;
    const PackedWeight &packed = *weight.packed;
    const ggml_tensor &tensor = *weight.tensor;
    EXPECT_EQ(packed.format, weight_format(tensor.type)) << name;
    EXPECT_EQ(packed.n_in, tensor.ne[0]) << name;
    EXPECT_EQ(packed.n_out, tensor.ne[1]) << name;
    EXPECT_EQ(packed.n_expert, tensor.ne[2]) << name;
    const auto *rows = reinterpret_cast<const std::byte *>(bytes_.at(name).data());
    for (int64_t expert = 0; expert < tensor.ne[2]; ++expert) {
      const size_t n_bytes =
          static_cast<size_t>(packed.n_tiles() * tile_bytes(packed.format, packed.n_in));
      std::vector<uint8_t> wanted(n_bytes);
      pack_tiles({packed.format, rows, tensor.nb[1], packed.n_in, packed.n_out}, 0,
                 packed.n_tiles(), wanted.data());
      const uint8_t *found = packed.tile(expert, 0);
      EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), found)) << name << " " << expert;
      rows += tensor.nb[2];
    }
  }

  TempDir dir_;
  GgufBuilder builder_;
  TensorTable table_;
  std::map<std::string, std::string> bytes_;  // of each quantised tensor in the file
  Weight embd_, head_, experts_, norm_;
  LinearWeights linear_;
};

TEST_F(PackedWeights, LieInTilesAndTheirTensorsAreWithoutData) {
  const auto store = load();
  expect_tiles_of("layer.weight", linear_.weight);
  expect_tiles_of("experts.weight", experts_);
  EXPECT_EQ(linear_.weight.tensor->data, nullptr);
  EXPECT_EQ(experts_.tensor->data, nullptr);
  EXPECT_EQ(store->plan().count(WeightLayout::packed), 3U);
  EXPECT_EQ(store->plan().count(WeightLayout::interleaved), 0U);
}

TEST_F(PackedWeights, ATiedHeadHasACopyOfItsOwnBesideTheTableThatIsLookedUp) {
  const auto store = load();
  expect_tiles_of("token_embd.weight", head_);
  EXPECT_EQ(head_.tensor, embd_.tensor);
  EXPECT_EQ(embd_.packed, nullptr);
  const std::string &bytes = bytes_.at("token_embd.weight");
  EXPECT_EQ(std::string(static_cast<const char *>(embd_.tensor->data), bytes.size()), bytes);
}

TEST_F(PackedWeights, CountAsCopiedAndAreReportedWhileTheyArePacked) {
  std::vector<size_t> all;
  std::vector<size_t> done;
  const auto store = load({.isa = k_isa}, [&](size_t done_bytes, size_t all_bytes) {
    done.push_back(done_bytes);
    all.push_back(all_bytes);
  });
  size_t n_bytes = 0;
  for (const auto &[name, bytes] : bytes_) n_bytes += bytes.size();
  EXPECT_EQ(store->copied_bytes(), n_bytes);
  EXPECT_EQ(store->mapped_bytes(),
            bytes_.at("token_embd.weight").size() + k_vector.size() * sizeof(float));
  EXPECT_TRUE(std::ranges::is_sorted(done));
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), n_bytes);
  EXPECT_EQ(all, std::vector<size_t>(all.size(), n_bytes));
}

TEST_F(PackedWeights, StayMappedWhenNotAskedFor) {
  const auto store = load({.interleave = false, .pack = false});
  EXPECT_EQ(store->plan().count(WeightLayout::packed), 0U);
  EXPECT_EQ(store->copied_bytes(), 0U);
  for (const Weight *weight : {&linear_.weight, &experts_, &head_}) {
    EXPECT_EQ(weight->packed, nullptr) << weight->name;
    EXPECT_NE(weight->tensor->data, nullptr) << weight->name;
  }
}

TEST_F(PackedWeights, LieAsThePlanSays) {
  for (const bool pack : {true, false}) {
    const auto store = load({.interleave = false, .pack = pack, .isa = k_isa});
    const std::vector weights{embd_, head_, linear_.weight, experts_, norm_};
    for (const auto &planned : store->plan().weights) {
      const auto weight = std::ranges::find(weights, planned.name, &Weight::name);
      ASSERT_NE(weight, weights.end()) << planned.name;
      EXPECT_EQ(planned.stored_as, weight->tensor->name);
      EXPECT_EQ(planned.type, weight->tensor->type);
      const bool is_packed = planned.layout == WeightLayout::packed;
      EXPECT_EQ(is_packed, weight->packed != nullptr) << planned.name;
      EXPECT_EQ(planned.isa.has_value(), is_packed) << planned.name;
    }
    // A tied head that is not packed is its table.
    EXPECT_EQ(store->plan().weights.size(), pack ? 5U : 4U);
  }
}

/// Lets the address space grow by so much at most while it lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(size_t n_more_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    std::ifstream statm("/proc/self/statm");
    size_t n_pages = 0;
    statm >> n_pages;
    rlimit limit = before_;
    limit.rlim_cur = n_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + n_more_bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  AddressSpaceLimit(const AddressSpaceLimit &) = delete;
  AddressSpaceLimit &operator=(const AddressSpaceLimit &) = delete;
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST_F(PackedWeights, ThatNeedMoreMemoryThanThereIsAreRefused) {
  Weight large;
  table_.experts(large, "large.weight", 1024, 1024, 16);
  add("large.weight", GGML_TYPE_Q8_0, {1024, 1024, 16});
  const auto path = dir_.write("model.gguf", builder_.bytes());
  const auto file = std::make_shared<const GgufFile>(GgufFile::open(path));
  const AddressSpaceLimit limit(size_t{8} << 20U);
  try {
    const WeightStore store(file, table_, {.layout = {.isa = k_isa}}, {});
    ADD_FAILURE() << "no LoadError was thrown";
  } catch (const LoadError &error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.what(), HasSubstr("more memory than there is"));
  }
}

}  // namespace
}  // namespace patchbay
