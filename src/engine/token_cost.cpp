#include "engine/token_cost.h"

#include <algorithm>

#include "lora/adapter_changes.h"

namespace patchbay {
namespace {

int64_t rank_of(const Adapter &adapter) {
  int64_t n_rank = 0;
  for (const auto &pair : adapter.pairs) n_rank = std::max(n_rank, pair.n_rank);
  // Whole new matrices have the rank of a base weight.
  if (adapter.changes == nullptr) return n_rank;
  for (const auto &change : adapter.changes->products) {
    if (change.tokens.empty()) n_rank = std::max(n_rank, change.n_rank);
  }
  return n_rank;
}

}  // namespace

double adapter_cost_factor(const Request &request) {
  int64_t heaviest = 0;
  for (const auto &span : request.spans) {
    int64_t n_rank = 0;
    for (const auto &[adapter, strength] : span.adapters) {
      if (strength != 0) n_rank += rank_of(*adapter);
    }
    heaviest = std::max(heaviest, n_rank);
  }
  return 1 + static_cast<double>(heaviest) / k_rank_of_double_cost;
}

}  // namespace patchbay
