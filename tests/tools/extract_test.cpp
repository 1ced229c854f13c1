#include "tools/extract.h"

#include <gmock/gmock.h>

#include <limits>

#include "gguf/load_failure.h"
#include "tools/merge_support.h"

namespace patchbay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const std::vector<int32_t> k_tokens{5, 40, 2, 19, 33, 7, 21};

std::shared_ptr<const LoadedModel> load_changed(
    const TinyModel &model, const TempDir &dir,
    const std::function<void(const TensorSpec &, std::vector<float> &)> &change) {
  return load_model(dir.write("tuned.gguf", build_tiny_model(model, change).bytes()));
}

class ExtractFamily : public testing::TestWithParam<TinyModel> {};

TEST_P(ExtractFamily, GetsBackWhatWasMerged) {
  const TempDir dir;
  const auto base = load_tiny(GetParam(), dir);
  const auto adapter = make_random_adapter(base->info.uses, 4, 0.3F, 1);
  const Merged merged(*base, {{adapter, 1}}, dir);
  const auto tuned = load_model(merged.report.files.front());
  const auto out = dir.path() / "out.gguf";
  const auto report = extract(*base, *tuned, out, {.rank = {.n_rank = 4}, .n_threads = 2});
  EXPECT_EQ(report.pairs.size(), base->info.uses.size());
  EXPECT_EQ(report.n_equal, 0U);
  for (const auto &pair : report.pairs) EXPECT_GT(pair.energy, 0.999) << pair.target;
  const auto found = load_adapter(out, base->info);
  const auto wanted = run_alone(tuned, {}, {.tokens = k_tokens});
  const auto got = run_alone(base, {found}, {.tokens = k_tokens, .set = {{0, 1}}});
  EXPECT_LT(max_difference(got, wanted), 2e-3F);
  EXPECT_GT(max_difference(run_alone(base, {}, {.tokens = k_tokens}), wanted), 0.1F);
}

INSTANTIATE_TEST_SUITE_P(All, ExtractFamily,
                         testing::Values(tiny_llama(), tiny_tied_llama(), tiny_mixtral(),
                                         tiny_gemma3()),
                         [](const auto &one) { return one.param.name; });

TEST(Extract, KeepsTheEnergyThatIsAskedFor) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const auto adapter = make_random_adapter(base->info.uses, 8, 0.3F, 1);
  const Merged merged(*base, {{adapter, 1}}, dir);
  const auto tuned = load_model(merged.report.files.front());
  const auto out = dir.path() / "out.gguf";
  const auto report = extract(*base, *tuned, out, {.rank = {.n_rank = 1000, .energy = 0.8}});
  for (const auto &pair : report.pairs) {
    EXPECT_GE(pair.energy, 0.8);
    EXPECT_LT(pair.n_rank, 8);
  }
  EXPECT_EQ(load_adapter(out, base->info)->pairs.size(), report.pairs.size());
}

TEST(Extract, SkipsWhatIsEqualAndKeepsVectors) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const auto tuned =
      load_changed(tiny_llama(), dir, [](const TensorSpec &spec, std::vector<float> &values) {
        if (spec.name == "blk.1.ffn_up.weight" || spec.name == "blk.0.attn_norm.weight" ||
            spec.name == "blk.0.attn_q.bias")
          values[3] += 1;
      });
  const auto out = dir.path() / "out.gguf";
  const auto report = extract(*base, *tuned, out, {});
  ASSERT_EQ(report.pairs.size(), 1U);
  EXPECT_EQ(report.pairs.front().target, "blk.1.ffn_up.weight");
  EXPECT_EQ(report.n_equal, base->info.uses.size() - 1);
  EXPECT_THAT(report.vectors,
              testing::UnorderedElementsAre("blk.0.attn_norm.weight", "blk.0.attn_q.bias"));
  const auto file = GgufFile::open(out);
  EXPECT_EQ(numbers_of(file, "blk.0.attn_norm.weight.patchbay_norm"),
            numbers_of(*tuned->file, "blk.0.attn_norm.weight"));
  EXPECT_EQ(numbers_of(file, "blk.0.attn_q.weight.patchbay_bias"),
            numbers_of(*tuned->file, "blk.0.attn_q.bias"));
  const auto without = extract(*base, *tuned, out, {.ignore_vectors = true});
  EXPECT_EQ(without.vectors, report.vectors);
  EXPECT_EQ(GgufFile::open(out).tensors().size(), 2U);
}

TEST(Extract, TakesRoundingToHalfPrecisionForNoChange) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16}) {
    const Merged merged(*base, {adapter_of({random_pair(*base, "blk.0.attn_q.weight", 1)})}, dir,
                        {.type = type});
    const auto report = extract(*base, *load_model(merged.report.files.front()),
                                dir.path() / "out.gguf", {.rank = {.n_rank = 3}});
    ASSERT_EQ(report.pairs.size(), 1U);
    EXPECT_EQ(report.pairs.front().target, "blk.0.attn_q.weight");
  }
}

TEST(Extract, RefusesNumbersThatAreNone) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const auto broken =
      load_changed(tiny_llama(), dir, [](const TensorSpec &spec, std::vector<float> &values) {
        if (spec.name == "blk.0.attn_q.weight") values[5] = std::numeric_limits<float>::quiet_NaN();
      });
  const auto out = dir.path() / "out.gguf";
  for (const auto &[from, to] : {std::pair(base, broken), std::pair(broken, base)}) {
    EXPECT_THAT(load_failure([&] { (void)extract(*from, *to, out, {.rank = {.n_rank = 3}}); }),
                AllOf(HasSubstr("blk.0.attn_q.weight"), HasSubstr("NaN")));
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

TEST(Extract, RefusesModelsThatAreNotOfOneKind) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const auto out = dir.path() / "out.gguf";
  const auto failure = [&](const LoadedModel &tuned) {
    return load_failure([&] { (void)extract(*base, tuned, out, {}); });
  };
  EXPECT_THAT(failure(*load_tiny(tiny_gemma3(), dir)), HasSubstr("general.architecture"));
  TinyModel other = tiny_llama();
  other.name = "other";
  other.hparams.n_ff = 96;
  EXPECT_THAT(failure(*load_tiny(other, dir)), HasSubstr("llama.feed_forward_length"));
  other.hparams = tiny_hparams();
  other.hparams.n_vocab = 64;
  EXPECT_THAT(failure(*load_tiny(other, dir)), HasSubstr("has incorrect shape"));
  EXPECT_THAT(failure(*load_tiny(folded(tiny_llama()), dir)), HasSubstr("Hadamard-folded"));
  EXPECT_THAT(failure(*base), HasSubstr("nothing to extract"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace patchbay
