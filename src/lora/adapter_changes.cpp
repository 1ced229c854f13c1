#include "lora/adapter_changes.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "lora/factor_ops.h"
#include "model/tensor_names.h"

namespace patchbay {
namespace {

bool is_plain(const Adapter &adapter) {
  return adapter.replacements.empty() &&
         std::ranges::all_of(adapter.pairs, [](const FactorPair &pair) {
           return pair.magnitude.n_elements() == 0 && pair.bias.n_elements() == 0;
         });
}

/// The shape of a use that the pair fits.
std::array<int64_t, 3> shape_of(const FactorPair &pair) {
  if (pair.kind == UseKind::embed) return {pair.b.ne[1], pair.a.ne[1], 1};
  return {pair.a.ne[0], pair.b.ne[1], pair.b.ne[2]};
}

ProductChange plain_change(const FactorPair &pair) {
  return {.target = pair.target,
          .kind = pair.kind,
          .n_rank = pair.n_rank,
          .scale = pair.scale,
          .ne = shape_of(pair),
          .a = pair.a,
          .b = pair.b};
}

std::shared_ptr<AdapterChanges> plain_changes(const Adapter &adapter) {
  auto changes = std::make_shared<AdapterChanges>();
  for (const auto &pair : adapter.pairs) changes->products.push_back(plain_change(pair));
  return changes;
}

/// Ones on the diagonal of each of `n_matrices`.
Factor identity(int64_t n, int64_t n_matrices) {
  std::vector<float> values(static_cast<size_t>(n * n * n_matrices));
  for (int64_t i = 0; i < n * n_matrices; ++i) values[static_cast<size_t>(i * n + i % n)] = 1;
  return make_factor({n, n, n_matrices}, std::move(values));
}

/// Makes an adapter's changes out of its parts and the base's numbers.
class Maker {
 public:
  Maker(const BaseInfo &base, const BaseTensors &numbers) : base_(base), numbers_(numbers) {}

  [[nodiscard]] AdapterChanges make(const Adapter &adapter) {
    for (const auto &pair : adapter.pairs) add_pair(pair);
    for (const auto &replacement : adapter.replacements) add_replacement(replacement);
    for (auto &[target, values] : biases_) add_bias(target, std::move(values));
    const auto by_target = [](const ProductChange &one, const ProductChange &other) {
      return std::pair(std::string_view(one.target), one.is_bias) <
             std::pair(std::string_view(other.target), other.is_bias);
    };
    std::ranges::sort(changes_.products, by_target);
    std::ranges::sort(changes_.norms, {}, &NormChange::tensor);
    return std::move(changes_);
  }

 private:
  void add_pair(const FactorPair &pair) {
    ProductChange change = plain_change(pair);
    if (pair.magnitude.n_elements() > 0) {
      change.dora = make_dora_terms(pair, numbers_, *numbers_.find(pair.target));
      changes_.size_bytes += change.dora->size_bytes();
    }
    changes_.products.push_back(std::move(change));
    if (pair.bias.n_elements() == 0) return;
    auto &sum = bias_sum(pair.target, pair.bias.ne[0]);
    const auto bias = numbers_of(pair.bias);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += pair.scale * bias[i];
  }

  void add_replacement(const Replacement &replacement) {
    if (const auto *norm = base_.find_norm(replacement.tensor)) {
      changes_.norms.push_back({norm->name, delta_of(replacement)});
      changes_.size_bytes += static_cast<size_t>(norm->n) * sizeof(float);
    } else if (const auto target = weight_of_bias(replacement.tensor); !target.empty()) {
      auto &sum = bias_sum(target, replacement.value.ne[0]);
      const auto delta = delta_of(replacement);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += delta[i];
    } else {
      const auto &use = *base_.find_use(replacement.tensor);
      add_product(replacement.rows.empty() ? matrix_change(use, delta_of(replacement))
                                           : rows_change(use, replacement));
    }
  }

  /// new - base; a base without the tensor has zeros.
  [[nodiscard]] std::vector<float> delta_of(const Replacement &replacement) const {
    auto values = numbers_of(replacement.value);
    const GgufTensor *tensor = numbers_.find(replacement.tensor);
    if (tensor == nullptr) return values;
    std::vector<float> row(static_cast<size_t>(tensor->ne[0]));
    for (size_t i = 0; i * row.size() < values.size(); ++i) {
      const auto i_row = static_cast<int64_t>(i);
      numbers_.read_rows(*tensor, replacement.rows.empty() ? i_row : replacement.rows[i], row);
      for (size_t j = 0; j < row.size(); ++j) values[i * row.size() + j] -= row[j];
    }
    return values;
  }

  /// The change of a whole matrix as a pair of which one half is the identity, the smaller of the
  /// two that are possible.
  [[nodiscard]] static ProductChange matrix_change(const AdaptableUse &use,
                                                   std::vector<float> delta) {
    ProductChange change{.target = use.name, .kind = use.kind, .ne = use.ne};
    const auto [n_in, n_out, n_expert] = use.ne;
    if (use.kind == UseKind::embed || (use.kind == UseKind::linear && n_out < n_in)) {
      // The rows of a look-up's A are the table's own.
      change.n_rank = use.kind == UseKind::embed ? n_in : n_out;
      change.a = make_factor({n_in, n_out, 1}, std::move(delta));
      change.b = identity(change.n_rank, 1);
    } else {
      change.n_rank = n_in;
      change.a = identity(n_in, n_expert);
      change.b = make_factor({n_in, n_out, n_expert}, std::move(delta));
    }
    return change;
  }

  [[nodiscard]] ProductChange rows_change(const AdaptableUse &use, const Replacement &replacement) {
    const auto n_rows = static_cast<int64_t>(replacement.rows.size());
    const int64_t n_embd = use.ne[0];
    ProductChange change{.target = use.name,
                         .kind = use.kind,
                         .n_rank = n_rows,
                         .ne = use.ne,
                         .tokens = replacement.rows};
    Factor delta = make_factor({n_embd, n_rows, 1}, delta_of(replacement));
    if (use.kind == UseKind::embed) {
      change.b = gather(delta, {n_rows, n_embd, 1}, {n_embd, 1, 0});
    } else {
      change.a = std::move(delta);
    }
    return change;
  }

  void add_product(ProductChange change) {
    changes_.size_bytes += change.a.data.size() + change.b.data.size();
    changes_.products.push_back(std::move(change));
  }

  [[nodiscard]] std::vector<float> &bias_sum(const std::string &target, int64_t n) {
    auto &values = biases_[target];
    values.resize(static_cast<size_t>(n));
    return values;
  }

  void add_bias(const std::string &target, std::vector<float> values) {
    const auto &use = *base_.find_use(target);
    const auto n_out = static_cast<int64_t>(values.size());
    add_product({.target = target,
                 .kind = use.kind,
                 .n_rank = 1,
                 .ne = use.ne,
                 .b = make_factor({1, n_out, 1}, std::move(values)),
                 .is_bias = true});
  }

  const BaseInfo &base_;
  const BaseTensors &numbers_;
  AdapterChanges changes_;
  std::map<std::string, std::vector<float>> biases_;  // by target
};

}  // namespace

std::shared_ptr<const AdapterChanges> make_changes(const Adapter &adapter, const BaseInfo &base) {
  if (is_plain(adapter) || base.tensors == nullptr) return nullptr;
  return std::make_shared<const AdapterChanges>(Maker(base, *base.tensors).make(adapter));
}

std::shared_ptr<const AdapterChanges> changes_of(const Adapter &adapter) {
  if (adapter.changes != nullptr) return adapter.changes;
  if (is_plain(adapter)) return plain_changes(adapter);
  throw LoadError({.path = adapter.path.empty() ? adapter.name : adapter.path,
                   .problem = "needs the numbers of its base, which were not at hand when it was "
                              "loaded"});
}

}  // namespace patchbay
