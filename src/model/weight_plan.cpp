#include "model/weight_plan.h"

#include <fmt/format.h>
#include <ggml-cpu.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/text.h"
#include "kernels/product.h"
#include "model/packed_weight.h"

namespace patchbay {
namespace {

[[noreturn]] void refuse(const GgufFile &file, std::string item, std::string problem,
                         std::string wanted, std::string found) {
  throw LoadError({.path = file.path(),
                   .item = std::move(item),
                   .problem = std::move(problem),
                   .wanted = std::move(wanted),
                   .found = std::move(found)});
}

void check_shape(const GgufFile &file, const TensorSpec &spec, const GgufTensor &tensor) {
  const std::array<int64_t, 4> want{spec.ne[0], spec.ne[1], spec.ne[2], 1};
  if (tensor.ne == want) return;
  const int n_dims = spec.ne[2] > 1 ? 3 : spec.ne[1] > 1 ? 2 : 1;
  refuse(file, spec.name, "has incorrect shape", format_shape(want, n_dims),
         format_shape(tensor.ne, tensor.n_dims));
}

/// ggml aborts on a product or a look-up whose type it cannot do; none may get that far.
bool type_fits(TensorRole role, ggml_type type) {
  if (role == TensorRole::vector) return type == GGML_TYPE_F32;
  if (type == GGML_TYPE_F32 || type == GGML_TYPE_F16 || type == GGML_TYPE_BF16) return true;
  return ggml_is_quantized(type) && ggml_get_type_traits(type)->to_float != nullptr &&
         ggml_get_type_traits_cpu(type)->vec_dot != nullptr;
}

void check_type(const GgufFile &file, const TensorSpec &spec, const GgufTensor &tensor) {
  if (type_fits(spec.role, tensor.type)) return;
  refuse(file, spec.name, "has a type that cannot be used here",
         spec.role == TensorRole::vector ? "F32" : "a float or quantised type",
         ggml_type_name(tensor.type));
}

void refuse_unknown(const GgufFile &file, const TensorTable &table) {
  std::unordered_set<std::string_view> known;
  for (const auto &spec : table.specs()) known.insert(spec.name);
  std::vector<std::string_view> unknown;
  for (const auto &tensor : file.tensors()) {
    if (!known.contains(tensor.name)) unknown.push_back(tensor.name);
  }
  if (unknown.empty()) return;
  refuse(file, "",
         fmt::format("has {} tensor(s) that its architecture does not read", unknown.size()), "",
         first_five(unknown));
}

/// Weights and the tensors of the file that have their numbers.
using Sources = std::unordered_map<const Weight *, const GgufTensor *>;

/// The checked tensor with the numbers of a weight: its own, or that of the weight it is tied to,
/// which is in `sources`. Null: the model goes without.
const GgufTensor *find_source(const GgufFile &file, const TensorSpec &spec,
                              const Sources &sources) {
  const GgufTensor *own = file.find_tensor(spec.name);
  if (own == nullptr && spec.tied_to != nullptr) return sources.at(spec.tied_to);
  if (own == nullptr && spec.required) refuse(file, spec.name, "is missing", "", "");
  if (own == nullptr) return nullptr;
  check_shape(file, spec, *own);
  check_type(file, spec, *own);
  return own;
}

PlannedWeight plan_weight(const TensorSpec &spec, const GgufTensor &source,
                          const LayoutOptions &options) {
  ggml_tensor tensor{};
  tensor.type = source.type;
  std::ranges::copy(source.ne, tensor.ne);
  PlannedWeight weight{.name = spec.name,
                       .stored_as = source.name,
                       .type = source.type,
                       .layout = choose_layout(spec.role, tensor, options)};
  const auto format = weight_format(source.type);
  if (weight.layout == WeightLayout::packed && format)
    weight.isa = product_isa(options.isa, *format);
  return weight;
}

bool has_own_tensor(const PlannedWeight &weight) { return weight.stored_as == weight.name; }

std::vector<PlannedWeight> plan_layouts(const GgufFile &file, const TensorTable &table,
                                        const LayoutOptions &options) {
  std::vector<PlannedWeight> weights;
  Sources sources;
  for (size_t i = 0; i < table.specs().size(); ++i) {
    const auto &spec = table.specs()[i];
    const GgufTensor *source = find_source(file, spec, sources);
    if (source == nullptr) continue;
    sources.emplace(spec.weight, source);
    PlannedWeight weight = plan_weight(spec, *source, options);
    weight.i_spec = i;
    if (has_own_tensor(weight) || weight.layout == WeightLayout::packed)
      weights.push_back(std::move(weight));
  }
  return weights;
}

/// Where ggml interleaves the rows of a tensor it does so by up to this many, and a view of some of
/// them must begin with a whole group.
constexpr int64_t k_rows_interleaved = 8;

/// Rows of different types or lengths make no tensor. Packed ones need none: one product reads the
/// tiles of several weights. And better apart and interleaved than together and not.
bool can_join(const TensorTable &table, const std::vector<PlannedWeight> &weights,
              const std::vector<size_t> &joined) {
  const auto &first = weights[joined.front()];
  const int64_t n_in = table.specs()[first.i_spec].ne[0];
  return std::ranges::all_of(joined, [&](size_t i) {
    const auto &weight = weights[i];
    const auto &ne = table.specs()[weight.i_spec].ne;
    if (weight.type != first.type || ne[0] != n_in || weight.layout != first.layout) return false;
    return weight.layout == WeightLayout::as_stored ||
           (weight.layout == WeightLayout::interleaved && ne[1] % k_rows_interleaved == 0);
  });
}

/// The sets of weights that are joined, by their place in `weights`.
std::vector<std::vector<size_t>> plan_joins(const TensorTable &table,
                                            const std::vector<PlannedWeight> &weights) {
  std::unordered_map<const Weight *, size_t> places;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (has_own_tensor(weights[i])) places.emplace(table.specs()[weights[i].i_spec].weight, i);
  }
  std::vector<std::vector<size_t>> joins;
  for (const auto &wanted : table.joins()) {
    std::vector<size_t> joined;
    for (const Weight *weight : wanted) {
      if (const auto found = places.find(weight); found != places.end())
        joined.push_back(found->second);
    }
    if (joined.size() == wanted.size() && can_join(table, weights, joined))
      joins.push_back(std::move(joined));
  }
  return joins;
}

}  // namespace

size_t WeightPlan::count(WeightLayout layout) const {
  return static_cast<size_t>(std::ranges::count(weights, layout, &PlannedWeight::layout));
}

WeightPlan plan_weights(const GgufFile &file, const TensorTable &table,
                        const WeightOptions &options) {
  refuse_unknown(file, table);
  WeightPlan plan{.weights = plan_layouts(file, table, options.layout)};
  if (options.join) plan.tensors = plan_joins(table, plan.weights);
  std::vector<bool> is_joined(plan.weights.size());
  for (const auto &joined : plan.tensors) {
    for (const size_t i : joined) is_joined[i] = true;
  }
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    if (!is_joined[i] && has_own_tensor(plan.weights[i])) plan.tensors.push_back({i});
  }
  return plan;
}

}  // namespace patchbay
