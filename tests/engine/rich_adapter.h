#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lora/adapter_changes.h"
#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"
#include "lora/random_adapter.h"

namespace patchbay {

/// What an adapter has beside plain pairs.
struct RichParts {
  bool dora = false;
  bool lora_bias = false;
  bool biases = false;
  bool norms = false;
  bool rows = false;      ///< of both uses of the table, in place of their pairs
  bool matrices = false;  ///< of two weights, in place of their pairs
};

inline std::vector<float> base_numbers(const BaseInfo &base, const std::string &name) {
  const GgufTensor &tensor = *base.tensors->find(name);
  std::vector<float> values(static_cast<size_t>(tensor.ne[0] * tensor.ne[1] * tensor.ne[2]));
  base.tensors->read_rows(tensor, 0, values);
  return values;
}

/// Makes an adapter with the parts, all of them far from doing nothing.
class RichAdapter {
 public:
  RichAdapter(const BaseInfo &base, int64_t n_rank, uint64_t seed, RichParts parts)
      : base_(base), random_(seed) {
    adapter_ = std::make_shared<Adapter>(*make_random_adapter(base.uses, n_rank, 0.3F, seed));
    if (parts.matrices) replace_matrices();
    if (parts.rows) replace_rows();
    for (auto &pair : adapter_->pairs) {
      if (parts.dora) pair.magnitude = lengths(pair);
      if (parts.lora_bias && !parts.dora && pair.kind == UseKind::linear)
        pair.bias = noise({pair.b.ne[1], 1, 1}, 0, 0.2F);
    }
    if (parts.biases) replace_biases();
    if (parts.norms) replace_norms();
    finish_adapter(*adapter_, base);
  }

  [[nodiscard]] std::shared_ptr<Adapter> get() const { return adapter_; }

 private:
  Factor noise(std::array<int64_t, 3> ne, float center, float sigma) {
    std::normal_distribution<float> normal(center, sigma);
    std::vector<float> values(static_cast<size_t>(ne[0] * ne[1] * ne[2]));
    for (float &value : values) value = normal(random_);
    return make_factor(ne, std::move(values));
  }

  /// Around those that the base's rows may have.
  Factor lengths(const FactorPair &pair) {
    const float typical = pair.kind == UseKind::embed ? 7.0F : 1.0F;
    const int64_t n_expert = pair.kind == UseKind::experts ? pair.b.ne[2] : 1;
    return noise({pair.b.ne[1], n_expert, 1}, typical, 0.3F * typical);
  }

  void drop_pair(const std::string &target) {
    std::erase_if(adapter_->pairs, [&](const FactorPair &pair) { return pair.target == target; });
  }

  void replace_matrices() {
    for (const auto &use : base_.uses) {
      const bool chosen = use.name == "blk.0.attn_v.weight" ||
                          use.name == "blk.1.attn_output.weight" ||
                          use.name == "blk.0.ffn_down_exps.weight" ||
                          use.name == "blk.1.ffn_down.weight" || use.name == "output.weight";
      if (!chosen) continue;
      drop_pair(use.name);
      const float sigma = 1 / std::sqrt(static_cast<float>(use.ne[0]));
      adapter_->replacements.push_back({.tensor = use.name, .value = noise(use.ne, 0, sigma)});
    }
  }

  void replace_rows() {
    for (const std::string table : {"token_embd.weight", "output.weight"}) {
      const auto *use = base_.find_use(table);
      const bool is_there = std::ranges::find(adapter_->replacements, table,
                                              &Replacement::tensor) != adapter_->replacements.end();
      if (use == nullptr || use->rotated_table || is_there) continue;
      drop_pair(table);
      adapter_->replacements.push_back(
          {.tensor = table, .value = noise({use->ne[0], 3, 1}, 0, 1), .rows = {2, 19, 40}});
    }
  }

  void replace_biases() {
    for (const auto &use : base_.uses) {
      if (use.kind != UseKind::linear || use.name == "output.weight") continue;
      auto name = use.name.substr(0, use.name.size() - 6) + "bias";
      adapter_->replacements.push_back(
          {.tensor = std::move(name), .value = noise({use.ne[1], 1, 1}, 0, 0.3F)});
    }
  }

  void replace_norms() {
    for (const auto &norm : base_.norms) {
      adapter_->replacements.push_back(
          {.tensor = norm.name, .value = noise({norm.n, 1, 1}, 1, 0.4F)});
    }
  }

  const BaseInfo &base_;
  std::mt19937_64 random_;
  std::shared_ptr<Adapter> adapter_;
};

inline std::shared_ptr<Adapter> make_rich_adapter(const BaseInfo &base, int64_t n_rank,
                                                  uint64_t seed, RichParts parts) {
  return RichAdapter(base, n_rank, seed, parts).get();
}

}  // namespace patchbay
