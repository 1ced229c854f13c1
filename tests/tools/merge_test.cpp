#include "tools/merge.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "base/file_limit.h"
#include "engine/rich_adapter.h"
#include "gguf/load_failure.h"
#include "tools/merge_support.h"

namespace patchbay {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char *k_q = "blk.0.attn_q.weight";
constexpr const char *k_table = "token_embd.weight";
constexpr const char *k_head = "output.weight";
const std::vector<int32_t> k_tokens{5, 40, 2, 19, 33, 7, 21};

/// Element (i_row, i) of B A, row by row of the weight.
double low_rank_at(const FactorPair &pair, int64_t n_in, int64_t i_row, int64_t i) {
  const auto number = [](const Factor &factor, int64_t at) {
    float value = 0;
    to_f32(factor, at, {&value, 1});
    return static_cast<double>(value);
  };
  double sum = 0;
  for (int64_t r = 0; r < pair.n_rank; ++r) {
    sum += pair.kind == UseKind::embed
               ? number(pair.a, i_row * pair.n_rank + r) * number(pair.b, i * pair.n_rank + r)
               : number(pair.b, i_row * pair.n_rank + r) * number(pair.a, r * n_in + i);
  }
  return sum;
}

class MergeFamily : public testing::TestWithParam<TinyModel> {};

TEST_P(MergeFamily, GivesWhatTheBaseGivesWithItsAdapters) {
  const TempDir dir;
  const auto base = load_tiny(GetParam(), dir);
  const auto uses = free_uses(*base);
  const std::vector<std::shared_ptr<const Adapter>> worn{
      make_random_adapter(uses, 4, 0.3F, 1), make_random_adapter(uses, 7, 0.3F, 2, GGML_TYPE_F16),
      make_random_adapter(std::span(uses).last(3), 2, 0.3F, 3)};
  const Merged merged(*base, {{worn[0], 1}, {worn[1], -0.5F}, {worn[2], 2}}, dir, {.n_threads = 2});
  const auto wanted =
      run_alone(base, worn, {.tokens = k_tokens, .set = {{0, 1}, {1, -0.5F}, {2, 2}}});
  const auto plain = run_alone(base, {}, {.tokens = k_tokens});
  const auto got = run_alone(load_model(merged.report.files.front()), {}, {.tokens = k_tokens});
  EXPECT_LT(max_difference(got, wanted), 1e-4F);
  EXPECT_GT(max_difference(plain, wanted), 0.1F);
}

TEST_P(MergeFamily, GivesWhatTheBaseGivesWithAdaptersOfMoreThanPairs) {
  for (const RichParts parts : {RichParts{.dora = true}, RichParts{.norms = true, .rows = true},
                                RichParts{.dora = true, .norms = true, .matrices = true}}) {
    const TempDir dir;
    const auto base = load_tiny(GetParam(), dir);
    BaseInfo free = base->info;
    free.uses = free_uses(*base);
    const std::vector<std::shared_ptr<const Adapter>> worn{
        make_rich_adapter(free, 4, 1, parts), make_random_adapter(free.uses, 3, 0.3F, 2)};
    const Merged merged(*base, {{worn[0], 0.7F}, {worn[1], -0.5F}}, dir, {.n_threads = 2});
    const auto wanted = run_alone(base, worn, {.tokens = k_tokens, .set = {{0, 0.7F}, {1, -0.5F}}});
    const auto plain = run_alone(base, {}, {.tokens = k_tokens});
    const auto got = run_alone(load_model(merged.report.files.front()), {}, {.tokens = k_tokens});
    EXPECT_LT(max_difference(got, wanted), 1e-3F);
    EXPECT_GT(max_difference(plain, wanted), 0.1F);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MergeFamily, testing::ValuesIn(all_tiny_models()),
                         [](const auto &one) { return one.param.name; });

TEST(Merge, BringsRowsOfDoraToTheirLengths) {
  for (const TinyModel &tiny : {tiny_llama(), tiny_mixtral()}) {
    const TempDir dir;
    const auto base = load_tiny(tiny, dir);
    const std::string target = tiny.hparams.n_expert > 0 ? "blk.1.ffn_up_exps.weight" : k_q;
    FactorPair pair = random_pair(*base, target, 1);
    const auto &use = *base->info.find_use(target);
    pair.magnitude = random_numbers({use.ne[1], use.ne[2], 1}, 9);
    const Merged merged(*base, {adapter_of({pair}, {}, 0.7F)}, dir);
    const auto before = numbers_of(*base->file, target);
    const auto after = numbers_of(merged.file, target);
    const int64_t n_in = use.ne[0];
    for (int64_t row = 0; row < use.ne[1] * use.ne[2]; ++row) {
      FactorPair one = pair;
      const int64_t i_expert = row / use.ne[1];
      one.a = gather(pair.a, {n_in, 3, 1}, {1, n_in, 0}, i_expert * 3 * n_in);
      double sum = 0;
      std::vector<double> changed;
      for (int64_t i = 0; i < n_in; ++i) {
        changed.push_back(before[static_cast<size_t>(row * n_in + i)] +
                          0.7 * 0.5 * low_rank_at(one, n_in, row, i));
        sum += changed.back() * changed.back();
      }
      float length = 0;
      to_f32(pair.magnitude, row, {&length, 1});
      for (int64_t i = 0; i < n_in; ++i) {
        ASSERT_NEAR(after[static_cast<size_t>(row * n_in + i)],
                    changed[static_cast<size_t>(i)] * length / std::sqrt(sum), 1e-5);
      }
    }
  }
}

TEST(Merge, RowsThatAChangeTakesAwayStayZeroUnderDora) {
  const TempDir dir;
  // A base of zeros and an adapter whose B is zero there.
  const auto base = load_model(dir.write(
      "zeros.gguf",
      build_tiny_model(tiny_llama(), [](const TensorSpec &spec, std::vector<float> &values) {
        if (spec.name == k_q || spec.name == k_table) std::fill(values.begin(), values.end(), 0.0F);
      }).bytes()));
  for (const char *target : {k_q, k_table}) {
    FactorPair pair = random_pair(*base, target, 1);
    pair.b = scaled_f32(pair.b, 0);
    const auto &use = *base->info.find_use(target);
    pair.magnitude = random_numbers({use.kind == UseKind::embed ? use.ne[0] : use.ne[1], 1, 1}, 9);
    const Merged merged(*base, {adapter_of({pair})}, dir);
    EXPECT_THAT(numbers_of(merged.file, target), Each(0.0F));
  }
}

TEST(Merge, LeavesExpertsAloneThatDoraGivesNoLengths) {
  const TempDir dir;
  const auto base = load_tiny(tiny_mixtral(), dir);
  const std::string target = "blk.1.ffn_up_exps.weight";
  FactorPair pair = random_pair(*base, target, 1);
  const auto &use = *base->info.find_use(target);
  const int64_t n_out = use.ne[1];
  auto lengths = numbers_of(random_numbers({n_out, use.ne[2], 1}, 9));
  std::fill_n(lengths.begin() + n_out, n_out, 0.0F);
  pair.magnitude = make_factor({n_out, use.ne[2], 1}, std::move(lengths));
  const Merged merged(*base, {adapter_of({pair})}, dir);
  const auto before = numbers_of(*base->file, target);
  const auto after = numbers_of(merged.file, target);
  const auto part = [&](const std::vector<float> &numbers, int64_t i_expert) {
    const auto n = static_cast<size_t>(use.ne[0] * n_out);
    const auto of_expert = std::span(numbers).subspan(static_cast<size_t>(i_expert) * n, n);
    return std::vector<float>(of_expert.begin(), of_expert.end());
  };
  EXPECT_NE(part(after, 0), part(before, 0));
  EXPECT_EQ(part(after, 1), part(before, 1));
}

TEST(Merge, BringsColumnsOfATableToTheirLengths) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  FactorPair pair = random_pair(*base, k_table, 1);
  const auto &use = *base->info.find_use(k_table);
  pair.magnitude = random_numbers({use.ne[0], 1, 1}, 9);
  const Merged merged(*base, {adapter_of({pair})}, dir, {.n_threads = 2});
  const auto before = numbers_of(*base->file, k_table);
  const auto after = numbers_of(merged.file, k_table);
  for (int64_t i = 0; i < use.ne[0]; ++i) {
    double sum = 0;
    std::vector<double> column;
    for (int64_t row = 0; row < use.ne[1]; ++row) {
      column.push_back(before[static_cast<size_t>(row * use.ne[0] + i)] +
                       0.5 * low_rank_at(pair, use.ne[0], row, i));
      sum += column.back() * column.back();
    }
    float length = 0;
    to_f32(pair.magnitude, i, {&length, 1});
    for (int64_t row = 0; row < use.ne[1]; ++row) {
      ASSERT_NEAR(after[static_cast<size_t>(row * use.ne[0] + i)],
                  column[static_cast<size_t>(row)] * length / std::sqrt(sum), 1e-5);
    }
  }
}

TEST(Merge, SumsTheChangesOfDoraAndPlainPairs) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  FactorPair dora = random_pair(*base, k_q, 1);
  dora.magnitude = random_numbers({32, 1, 1}, 9);
  const auto one = adapter_of({dora});
  const auto other = adapter_of({random_pair(*base, k_q, 5)});
  const auto before = numbers_of(*base->file, k_q);
  const auto first = numbers_of(Merged(*base, {one}, dir).file, k_q);
  const auto second = numbers_of(Merged(*base, {other}, dir).file, k_q);
  const auto both = numbers_of(Merged(*base, {one, other}, dir).file, k_q);
  for (size_t i = 0; i < both.size(); ++i)
    ASSERT_NEAR(both[i], first[i] + second[i] - before[i], 1e-5);
}

TEST(Merge, AddsBiasesAndReplacesNormsAtAnyStrength) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  FactorPair pair = random_pair(*base, k_q, 1);
  pair.bias = random_numbers({32, 1, 1}, 3);
  const Replacement norm{.tensor = "blk.1.ffn_norm.weight", .value = random_numbers({32, 1, 1}, 4)};
  const Merged merged(*base, {adapter_of({pair}, {norm}, 0.25F)}, dir);
  const auto bias_before = numbers_of(*base->file, "blk.0.attn_q.bias");
  const auto bias = numbers_of(merged.file, "blk.0.attn_q.bias");
  const auto norm_before = numbers_of(*base->file, norm.tensor);
  const auto norm_after = numbers_of(merged.file, norm.tensor);
  for (size_t i = 0; i < 32; ++i) {
    float new_bias = 0;
    float new_norm = 0;
    to_f32(pair.bias, static_cast<int64_t>(i), {&new_bias, 1});
    to_f32(norm.value, static_cast<int64_t>(i), {&new_norm, 1});
    EXPECT_FLOAT_EQ(bias[i], bias_before[i] + 0.25F * 0.5F * new_bias);
    EXPECT_NEAR(norm_after[i], norm_before[i] + 0.25F * (new_norm - norm_before[i]), 1e-6);
  }
}

TEST(Merge, MakesABiasThatTheBaseLacksAndTheGraphReads) {
  const TempDir dir;
  const auto base = load_tiny(tiny_tied_llama(), dir);
  const Replacement bias{.tensor = "blk.0.attn_v.bias", .value = random_numbers({16, 1, 1}, 4)};
  const Merged merged(*base, {adapter_of({}, {bias})}, dir);
  float first = 0;
  to_f32(bias.value, 0, {&first, 1});
  EXPECT_EQ(numbers_of(merged.file, bias.tensor).front(), first);
  const auto plain = run_alone(base, {}, {.tokens = k_tokens});
  const auto got = run_alone(load_model(merged.report.files.front()), {}, {.tokens = k_tokens});
  EXPECT_GT(max_difference(plain, got), 0.01F);
}

TEST(Merge, RefusesABiasThatNoGraphReads) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  FactorPair pair = random_pair(*base, k_head, 1);
  pair.bias = random_numbers({48, 1, 1}, 3);
  EXPECT_THAT(load_failure([&] { (void)Merged(*base, {adapter_of({pair})}, dir); }),
              HasSubstr("output.bias has no place in a merged model"));
  EXPECT_EQ(n_files(dir), 1);
}

TEST(Merge, ReplacesTheRowsOfTokensAndKeepsTheOthersToTheBit) {
  const TempDir dir;
  for (const TinyModel &tiny : {tiny_llama(), folded(tiny_llama())}) {
    TinyModel quantised = tiny;
    quantised.type = GGML_TYPE_Q4_1;
    const auto base = load_tiny(quantised, dir);
    const Replacement rows{
        .tensor = k_table, .value = random_numbers({32, 2, 1}, 4), .rows = {7, 40}};
    const Merged merged(*base, {adapter_of({}, {rows})}, dir);
    const auto *before = base->file->find_tensor(k_table);
    const auto *after = merged.file.find_tensor(k_table);
    for (int64_t row = 0; row < 48; ++row) {
      const bool same = std::ranges::equal(raw_rows(*before, {row, 1}), raw_rows(*after, {row, 1}));
      EXPECT_EQ(same, row != 7 && row != 40) << row;
    }
    std::vector<float> wanted(32);
    to_f32(rows.value, 32, wanted);
    if (tiny.folding.block_size > 0) fold_rows(tiny.folding, 32, wanted);
    std::vector<float> got(32);
    read_rows(*after, {40, 1}, got);
    for (size_t i = 0; i < 32; ++i) EXPECT_NEAR(got[i], wanted[i], 0.2);
  }
}

TEST(Merge, ReplacesAWholeMatrixExactly) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const Replacement matrix{.tensor = k_q, .value = random_numbers({32, 32, 1}, 4)};
  const Merged merged(*base, {adapter_of({}, {matrix})}, dir);
  std::vector<float> wanted(32 * 32);
  to_f32(matrix.value, 0, wanted);
  EXPECT_EQ(numbers_of(merged.file, k_q), wanted);
}

TEST(Merge, UntiesAHeadWhoseTableAloneIsChanged) {
  const TempDir dir;
  const auto base = load_tiny(tiny_tied_llama(), dir);
  const Merged merged(*base, {adapter_of({random_pair(*base, k_table, 1)})}, dir);
  EXPECT_EQ(numbers_of(merged.file, k_head), numbers_of(*base->file, k_table));
  EXPECT_NE(numbers_of(merged.file, k_table), numbers_of(*base->file, k_table));
  EXPECT_THAT(merged.report.notes, ElementsAre(HasSubstr("two from now on")));
}

TEST(Merge, UntiesATableWhoseHeadAloneIsChanged) {
  const TempDir dir;
  const auto base = load_tiny(tiny_tied_llama(), dir);
  const Merged merged(*base, {adapter_of({random_pair(*base, k_head, 1)})}, dir);
  EXPECT_NE(numbers_of(merged.file, k_head), numbers_of(*base->file, k_table));
  EXPECT_EQ(numbers_of(merged.file, k_table), numbers_of(*base->file, k_table));
}

TEST(Merge, KeepsOneTensorWhenBothUsesAreChangedAlike) {
  const TempDir dir;
  const auto base = load_tiny(tiny_tied_llama(), dir);
  const FactorPair table = random_pair(*base, k_table, 1);
  FactorPair head = table;
  head.target = k_head;
  head.kind = UseKind::linear;
  head.a = gather(table.b, {32, 3, 1}, {3, 1, 0});
  head.b = table.a;
  const Merged merged(*base, {adapter_of({table, head})}, dir);
  EXPECT_EQ(merged.file.find_tensor(k_head), nullptr);
  head.scale *= 2;
  const Merged other(*base, {adapter_of({table, head})}, dir);
  EXPECT_NE(other.file.find_tensor(k_head), nullptr);
}

TEST(Merge, KeepsTypesAndMetadataAndSaysWhatWasMerged) {
  const TempDir dir;
  TinyModel tiny = tiny_llama();
  tiny.type = GGML_TYPE_Q8_0;
  const auto base = load_tiny(tiny, dir);
  const auto one = adapter_of({random_pair(*base, k_q, 1)}, {}, 0.5F);
  const Merged merged(*base, {one}, dir);
  for (const auto &tensor : base->file->tensors()) {
    const auto *after = merged.file.find_tensor(tensor.name);
    ASSERT_NE(after, nullptr);
    EXPECT_EQ(after->type, tensor.type);
    if (tensor.name == k_q) continue;
    EXPECT_TRUE(std::ranges::equal(tensor.data, after->data)) << tensor.name;
  }
  EXPECT_EQ(merged.file.get_string("general.name"), "tiny llama + made-up:0.5");
  EXPECT_THAT(*merged.file.get_strings("patchbay.merged.names"), ElementsAre("made-up"));
  EXPECT_THAT(*merged.file.get_floats("patchbay.merged.strengths"), ElementsAre(0.5F));
  EXPECT_EQ(merged.file.get_u32("llama.block_count"), base->file->get_u32("llama.block_count"));
  ASSERT_EQ(merged.report.changed.size(), 1U);
  EXPECT_EQ(merged.report.changed.front().name, k_q);
  EXPECT_GT(*merged.report.changed.front().relative_change, 0);
  EXPECT_EQ(merged.report.size_bytes, std::filesystem::file_size(merged.report.files.front()));
  const auto again = load_model(merged.report.files.front());
  const TempDir more;
  const Merged twice(*again, {one}, more);
  EXPECT_EQ(twice.file.get_strings("patchbay.merged.names")->size(), 2U);
}

TEST(Merge, MakesMatricesOfTheTypeThatIsAskedFor) {
  const TempDir dir;
  const auto base = load_tiny(tiny_mixtral(), dir);
  const auto one = adapter_of({random_pair(*base, k_q, 1)});
  for (const ggml_type type : {GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0}) {
    const Merged merged(*base, {one}, dir, {.type = type});
    EXPECT_EQ(merged.file.find_tensor(k_q)->type, type);
    EXPECT_EQ(merged.file.find_tensor("blk.1.ffn_down_exps.weight")->type, type);
    EXPECT_EQ(merged.file.find_tensor("blk.1.ffn_gate_inp.weight")->type, GGML_TYPE_F32);
    EXPECT_EQ(merged.file.find_tensor("blk.1.ffn_norm.weight")->type, GGML_TYPE_F32);
  }
  EXPECT_EQ(Merged(*base, {one}, dir, {.type = GGML_TYPE_F16}).file.get_u32("general.file_type"),
            1U);
}

TEST(Merge, SplitsAndReadsSplits) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const std::vector<MergedAdapter> one{adapter_of({random_pair(*base, k_q, 1)})};
  const auto whole = merge(*base, one, one, dir.path() / "whole.gguf", {});
  const Merged split(*base, one, dir, {.split_max_bytes = 20000});
  ASSERT_GT(split.report.files.size(), 2U);
  EXPECT_THAT(split.report.files.front(), HasSubstr("merged-00001-of-000"));
  EXPECT_EQ(split.file.tensors().size(), base->file->tensors().size());
  const auto from_split = load_model(split.report.files.front());
  const auto again = merge(*from_split, one, one, dir.path() / "again.gguf", {});
  const auto file = GgufFile::open(again.files.front());
  EXPECT_FALSE(file.has("split.count"));
  const auto at_once = numbers_of(GgufFile::open(whole.files.front()), k_q);
  EXPECT_EQ(numbers_of(split.file, k_q), at_once);
  EXPECT_NE(numbers_of(file, k_q), at_once);
}

TEST(Merge, RefusesWhatWouldBeACopy) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  FactorPair zero = random_pair(*base, k_q, 1);
  zero.b = make_factor({3, 32, 1}, std::vector<float>(96));
  const std::vector<std::vector<MergedAdapter>> nothings{
      {}, {adapter_of({random_pair(*base, k_q, 1)}, {}, 0)}, {adapter_of({zero})}};
  for (const auto &adapters : nothings) {
    EXPECT_THAT(load_failure([&] { (void)Merged(*base, adapters, dir); }),
                HasSubstr("nothing to merge"));
  }
  EXPECT_EQ(n_files(dir), 1);
}

TEST(Merge, AnAloraNeedsLeave) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  auto alora = std::make_shared<Adapter>(*adapter_of({random_pair(*base, k_q, 1)}).adapter);
  alora->invocation_tokens = {1, 2};
  const std::vector<MergedAdapter> adapters{{alora, 1}};
  EXPECT_THAT(load_failure([&] { (void)Merged(*base, adapters, dir); }),
              HasSubstr("--allow-alora"));
  EXPECT_EQ(Merged(*base, adapters, dir, {.allow_alora = true}).report.changed.size(), 1U);
}

TEST(Merge, RefusesNumbersThatDoNotFitTheirType) {
  const TempDir dir;
  TinyModel tiny = tiny_llama();
  tiny.type = GGML_TYPE_F16;
  const auto base = load_tiny(tiny, dir);
  const auto huge = adapter_of({random_pair(*base, k_q, 1)}, {}, 1e6F);
  EXPECT_THAT(load_failure([&] { (void)Merged(*base, {huge}, dir); }),
              HasSubstr("blk.0.attn_q.weight gets a number that does not fit f16"));
  EXPECT_EQ(n_files(dir), 1);
  EXPECT_EQ(Merged(*base, {huge}, dir, {.type = GGML_TYPE_F32}).report.changed.size(), 1U);
}

TEST(Merge, RefusesATypeThatNeedsAnImportanceMatrix) {
  EXPECT_FALSE(is_writable(GGML_TYPE_IQ2_XXS));
  EXPECT_FALSE(is_writable(GGML_TYPE_IQ1_M));
  EXPECT_FALSE(is_writable(GGML_TYPE_I32));
  EXPECT_FALSE(is_writable(GGML_TYPE_Q8_K));
  EXPECT_TRUE(is_writable(GGML_TYPE_Q4_K));
  EXPECT_TRUE(is_writable(GGML_TYPE_BF16));
}

TEST(Merge, LeavesNoFileOnAFullDisk) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const auto one = adapter_of({random_pair(*base, k_q, 1)});
  for (const size_t split_max_bytes : {size_t{0}, size_t{20000}}) {
    const FileLimit limit(10000);
    EXPECT_THAT(load_failure(
                    [&] { (void)Merged(*base, {one}, dir, {.split_max_bytes = split_max_bytes}); }),
                HasSubstr("cannot be written"));
    EXPECT_EQ(n_files(dir), 1);
  }
}

TEST(Merge, ADryRunWritesNothing) {
  const TempDir dir;
  const auto base = load_tiny(tiny_llama(), dir);
  const std::vector<MergedAdapter> one{adapter_of({random_pair(*base, k_q, 1)})};
  const auto report = merge(*base, one, one, dir.path() / "merged.gguf", {.dry_run = true});
  EXPECT_EQ(report.changed.size(), 1U);
  EXPECT_EQ(n_files(dir), 1);
}

}  // namespace
}  // namespace patchbay
