#include "lora/scale_folding.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "lora/gguf_halves.h"

namespace patchbay {
namespace {

/// Scales are F32: what rounding makes of one alpha over one rank is no reason to change B.
constexpr double k_same = 1e-7;

/// By what the pair's B must be multiplied when the file states `alpha`.
double factor_for(const FactorPair &pair, float alpha) {
  const double scale = gguf_scale(alpha, pair.n_rank);
  const double factor = static_cast<double>(pair.scale) / scale;
  return std::abs(factor - 1) <= k_same ? 1 : factor;
}

std::ptrdiff_t n_unchanged(std::span<const FactorPair> pairs, float alpha) {
  return std::ranges::count_if(
      pairs, [alpha](const FactorPair &pair) { return factor_for(pair, alpha) == 1; });
}

/// The alpha that a file would state for this pair alone.
float alpha_of(const FactorPair &pair) {
  return static_cast<float>(static_cast<double>(pair.scale) * static_cast<double>(pair.n_rank));
}

bool is_usable(float alpha) { return std::isnormal(alpha); }

float choose_alpha(std::span<const FactorPair> pairs, double preferred) {
  std::map<float, std::ptrdiff_t> votes;
  for (const auto &pair : pairs) {
    const float alpha = alpha_of(pair);
    if (is_usable(alpha) && !votes.contains(alpha)) votes[alpha] = n_unchanged(pairs, alpha);
  }
  // With every scale 0 any alpha will do: B is zero.
  if (votes.empty()) return pairs.empty() ? 1 : static_cast<float>(pairs.front().n_rank);
  const auto best = std::ranges::max_element(
      votes, [](const auto &one, const auto &other) { return one.second < other.second; });
  const auto stated = static_cast<float>(preferred);
  const bool keeps = is_usable(stated) && n_unchanged(pairs, stated) >= best->second;
  return keeps ? stated : best->first;
}

}  // namespace

ScaleFolding fold_scales(std::span<const FactorPair> pairs, double preferred) {
  ScaleFolding folding{.alpha = choose_alpha(pairs, preferred)};
  for (const auto &pair : pairs) folding.factors.push_back(factor_for(pair, folding.alpha));
  return folding;
}

}  // namespace patchbay
