#include "lora/random_adapter.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <utility>

#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

/// Uniform numbers of variance `sigma`^2.
Factor random_factor(std::array<int64_t, 3> ne, float sigma, ggml_type type,
                     std::mt19937_64 &random) {
  std::vector<float> values(static_cast<size_t>(ne[0] * ne[1] * ne[2]));
  const float half_width = sigma * std::sqrt(3.0F);
  for (float &value : values) {
    const double fraction = static_cast<double>(random() >> 11U) * 0x1.0p-53;
    value = half_width * static_cast<float>(2 * fraction - 1);
  }
  if (type == GGML_TYPE_F32) return make_factor(ne, std::move(values));
  std::vector<std::byte> bytes(values.size() * ggml_type_size(type));
  ggml_get_type_traits(type)->from_float_ref(values.data(), bytes.data(),
                                             static_cast<int64_t>(values.size()));
  return make_factor(type, ne, std::move(bytes));
}

FactorPair random_pair(const AdaptableUse &use, int64_t n_rank, float size, ggml_type type,
                       std::mt19937_64 &random) {
  const auto [n_in, n_out, n_expert] = use.ne;
  FactorPair pair{.target = use.name, .kind = use.kind, .n_rank = n_rank};
  const float sigma_b = size / std::sqrt(static_cast<float>(n_rank));
  if (use.kind == UseKind::embed) {
    pair.a = random_factor({n_rank, n_out, 1}, 1, type, random);
    pair.b = random_factor({n_rank, n_in, 1}, sigma_b, type, random);
  } else {
    pair.a = random_factor({n_in, n_rank, n_expert}, 1 / std::sqrt(static_cast<float>(n_in)), type,
                           random);
    pair.b = random_factor({n_rank, n_out, n_expert}, sigma_b, type, random);
  }
  return pair;
}

}  // namespace

std::shared_ptr<const Adapter> make_random_adapter(std::span<const AdaptableUse> uses,
                                                   int64_t n_rank, float size, uint64_t seed,
                                                   ggml_type type) {
  std::mt19937_64 random(seed);
  auto adapter = std::make_shared<Adapter>();
  adapter->name = fmt::format("random-{}", seed);
  adapter->alpha = static_cast<double>(n_rank);
  for (const auto &use : uses)
    adapter->pairs.push_back(random_pair(use, n_rank, size, type, random));
  finish_adapter(*adapter, {});
  return adapter;
}

}  // namespace patchbay
