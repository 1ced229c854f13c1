#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_dir.h"
#include "engine/step_support.h"
#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"
#include "lora/random_adapter.h"
#include "tools/merge.h"
#include "tools/tensor_rows.h"

namespace patchbay {

/// All numbers of a tensor, row by row.
inline std::vector<float> numbers_of(const GgufFile &file, const std::string &name) {
  const GgufTensor *tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    ADD_FAILURE() << file.path() << " has no " << name;
    return {};
  }
  const int64_t n_rows = tensor->ne[1] * tensor->ne[2];
  std::vector<float> numbers(static_cast<size_t>(tensor->ne[0] * n_rows));
  read_rows(*tensor, {.first = 0, .n_rows = n_rows}, numbers);
  return numbers;
}

inline Factor random_numbers(std::array<int64_t, 3> ne, uint64_t seed, float size = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, size);
  std::vector<float> values(static_cast<size_t>(ne[0] * ne[1] * ne[2]));
  for (float &value : values) value = normal(random);
  return make_factor(ne, std::move(values));
}

/// An adapter of these parts.
inline MergedAdapter adapter_of(std::vector<FactorPair> pairs,
                                std::vector<Replacement> replacements = {}, float strength = 1) {
  auto adapter = std::make_shared<Adapter>();
  adapter->name = "made-up";
  adapter->path = "made-up.gguf";
  adapter->pairs = std::move(pairs);
  adapter->replacements = std::move(replacements);
  finish_adapter(*adapter, {});
  return {std::move(adapter), strength};
}

/// Of rank 3 on a linear weight of the base.
inline FactorPair random_pair(const LoadedModel &base, const std::string &target, uint64_t seed) {
  const auto &use = *base.info.find_use(target);
  FactorPair pair{.target = target, .kind = use.kind, .n_rank = 3, .scale = 0.5F};
  if (use.kind == UseKind::embed) {
    pair.a = random_numbers({3, use.ne[1], 1}, seed);
    pair.b = random_numbers({3, use.ne[0], 1}, seed + 1);
  } else {
    pair.a = random_numbers({use.ne[0], 3, use.ne[2]}, seed);
    pair.b = random_numbers({3, use.ne[1], use.ne[2]}, seed + 1);
  }
  return pair;
}

/// Uses that an adapter may change.
inline std::vector<AdaptableUse> free_uses(const LoadedModel &base) {
  std::vector<AdaptableUse> uses;
  for (const auto &use : base.info.uses) {
    if (!use.rotated_table) uses.push_back(use);
  }
  return uses;
}

/// Merges and opens what came out.
struct Merged {
  Merged(const LoadedModel &base, const std::vector<MergedAdapter> &adapters, const TempDir &dir,
         const MergeOptions &options = {})
      : report(merge(base, adapters, adapters, dir.path() / "merged.gguf", options)),
        file(GgufFile::open(report.files.front())) {}

  MergeReport report;
  GgufFile file;
};

inline auto n_files(const TempDir &dir) {
  return std::distance(std::filesystem::directory_iterator(dir.path()),
                       std::filesystem::directory_iterator());
}

}  // namespace patchbay
