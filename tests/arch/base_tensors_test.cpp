#include "model/base_tensors.h"

#include <gmock/gmock.h>

#include "arch/tiny_model.h"
#include "base/temp_dir.h"

namespace patchbay {
namespace {

BaseTensors tensors_of(const TinyModel &model) {
  const TempDir folder;
  auto file = std::make_shared<const GgufFile>(
      GgufFile::open(folder.write("model.gguf", build_tiny_model(model).bytes())));
  return BaseTensors(file, read_hadamard(*file));
}

std::vector<float> all_rows(const BaseTensors &tensors, const GgufTensor &tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.ne[0] * tensor.ne[1] * tensor.ne[2]));
  tensors.read_rows(tensor, 0, values);
  return values;
}

TEST(BaseTensors, OfAFoldedModelAreThoseOfThePlainOne) {
  for (const auto &model : {tiny_llama(), tiny_mixtral(), tiny_gemma3()}) {
    const auto plain = tensors_of(model);
    const auto turned = tensors_of(folded(model));
    for (const auto *name :
         {"token_embd.weight", "blk.1.attn_q.weight", "blk.0.attn_norm.weight"}) {
      const auto want = all_rows(plain, *plain.find(name));
      EXPECT_THAT(all_rows(turned, *turned.find(name)),
                  testing::Pointwise(testing::FloatNear(1e-5F), want))
          << model.name << " " << name;
    }
  }
}

TEST(BaseTensors, TheHeadOfATiedModelIsItsTable) {
  const auto tied = tensors_of(tiny_tied_llama());
  EXPECT_EQ(tied.find("output.weight"), tied.find("token_embd.weight"));
  const auto untied = tensors_of(tiny_llama());
  EXPECT_NE(untied.find("output.weight"), untied.find("token_embd.weight"));
  EXPECT_EQ(untied.find("nothing"), nullptr);
}

TEST(BaseTensors, RowsAreReadFromAnywhereAndDequantised) {
  auto model = tiny_mixtral();
  const auto exact = tensors_of(model);
  model.type = GGML_TYPE_Q8_0;
  const auto quantised = tensors_of(model);
  const auto *name = "blk.0.ffn_up_exps.weight";
  const auto whole = all_rows(exact, *exact.find(name));
  std::vector<float> rows(2 * 32);
  quantised.read_rows(*quantised.find(name), 70, rows);  // of the second expert
  const std::vector<float> want(whole.begin() + 70 * 32, whole.begin() + 72 * 32);
  EXPECT_THAT(rows, testing::Pointwise(testing::FloatNear(1e-2F), want));
}

}  // namespace
}  // namespace patchbay
