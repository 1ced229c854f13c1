#include "tools/tensor_change.h"

#include <algorithm>
#include <string_view>

#include "lora/factor_ops.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

bool has(const Factor &factor) { return factor.n_elements() > 0; }

/// `table` is kept by row and column, `head` the other way round.
bool is_same_pair(const TensorChange::Pair &table, const TensorChange::Pair &head) {
  const FactorPair &one = *table.pair;
  const FactorPair &other = *head.pair;
  const bool is_plain =
      !has(one.magnitude) && !has(other.magnitude) && !has(one.bias) && !has(other.bias);
  return is_plain && one.n_rank == other.n_rank && table.scale() == head.scale() &&
         numbers_of(one.a) == numbers_of(other.b) &&
         numbers_of(transposed(one.b)) == numbers_of(other.a);
}

bool is_same_replacement(const TensorChange::NewNumbers &one,
                         const TensorChange::NewNumbers &other) {
  return one.strength == other.strength && one.replacement->rows == other.replacement->rows &&
         numbers_of(one.replacement->value) == numbers_of(other.replacement->value);
}

}  // namespace

TensorChanges tensor_changes(std::span<const MergedAdapter> adapters) {
  TensorChanges changes;
  for (const auto &[adapter, strength] : adapters) {
    if (strength == 0) continue;
    for (const auto &pair : adapter->pairs) {
      changes[pair.target].pairs.push_back({&pair, strength});
      if (has(pair.bias)) changes[bias_of(pair.target)].biases.push_back({&pair, strength});
    }
    for (const auto &replacement : adapter->replacements)
      changes[replacement.tensor].replacements.push_back({&replacement, strength});
  }
  return changes;
}

bool stay_tied(const TensorChange &table, const TensorChange &head) {
  return std::ranges::equal(table.pairs, head.pairs, is_same_pair) &&
         std::ranges::equal(table.replacements, head.replacements, is_same_replacement);
}

}  // namespace patchbay
