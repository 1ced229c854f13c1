#include "tools/combine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "lora/adapter_summary.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

/// Zeroes all but the largest, as many as int(density * n).
void keep_largest(std::vector<float> &numbers, double density) {
  const auto n_kept = static_cast<size_t>(density * static_cast<double>(numbers.size()));
  std::vector<size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto larger = [&](size_t one, size_t other) {
    return std::abs(numbers[one]) > std::abs(numbers[other]);
  };
  const auto border = order.begin() + static_cast<ptrdiff_t>(n_kept);
  if (border != order.end()) std::nth_element(order.begin(), border, order.end(), larger);
  std::for_each(border, order.end(), [&](size_t i) { numbers[i] = 0; });
}

void drop_and_scale(std::vector<float> &numbers, double density, const DareMask &mask) {
  const std::vector<bool> kept = mask(numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = kept[i] ? numbers[i] / static_cast<float>(density) : 0;
}

std::vector<float> weighted_sum(std::span<const std::vector<float>> tensors,
                                std::span<const float> weights) {
  std::vector<float> sum(tensors.front().size());
  for (size_t i_tensor = 0; i_tensor < tensors.size(); ++i_tensor) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += weights[i_tensor] * tensors[i_tensor][i];
  }
  return sum;
}

/// Of each number, the weighted mean over those that have the sign of their sum.
std::vector<float> elected_mean(std::span<const std::vector<float>> tensors,
                                std::span<const float> weights) {
  std::vector<float> mean(tensors.front().size());
  for (size_t i = 0; i < mean.size(); ++i) {
    float total = 0;
    for (const auto &tensor : tensors) total += tensor[i];
    float sum = 0;
    int n = 0;
    for (size_t i_tensor = 0; i_tensor < tensors.size(); ++i_tensor) {
      const float value = tensors[i_tensor][i];
      if (total >= 0 ? value <= 0 : value >= 0) continue;
      sum += weights[i_tensor] * value;
      ++n;
    }
    mean[i] = sum / static_cast<float>(std::max(n, 1));
  }
  return mean;
}

bool has_signs(CombineRule rule) {
  return rule == CombineRule::ties || rule == CombineRule::dare_ties;
}

bool is_random(CombineRule rule) {
  return rule == CombineRule::dare_linear || rule == CombineRule::dare_ties;
}

void check_plain(const Adapter &adapter) {
  const bool plain =
      adapter.replacements.empty() && std::ranges::all_of(adapter.pairs, [](const auto &pair) {
        return pair.magnitude.n_elements() == 0 && pair.bias.n_elements() == 0;
      });
  if (plain) return;
  throw LoadError({.path = adapter.path,
                   .problem = "holds more than low-rank pairs, which --combine has no rule for",
                   .hint = "without --combine all of it is merged"});
}

/// One target in those adapters that have it, with their weights.
struct Target {
  std::vector<const FactorPair *> pairs;
  std::vector<double> weights;
};

std::map<std::string, Target> targets_of(std::span<const MergedAdapter> adapters) {
  std::map<std::string, Target> targets;
  for (const auto &[adapter, strength] : adapters) {
    check_plain(*adapter);
    if (strength == 0) continue;
    for (const auto &pair : adapter->pairs) {
      Target &target = targets[pair.target];
      target.pairs.push_back(&pair);
      target.weights.push_back(static_cast<double>(strength) * pair.scale);
      const auto &first = *target.pairs.front();
      if (pair.n_rank == first.n_rank) continue;
      throw LoadError({.path = adapter->path,
                       .item = pair.target,
                       .problem = "has another rank than in an adapter before it",
                       .wanted = fmt::format("{}", first.n_rank),
                       .found = fmt::format("{}", pair.n_rank),
                       .hint = "without --combine adapters of all ranks are summed"});
    }
  }
  return targets;
}

Factor combine_factors(const Target &target, Factor FactorPair::*factor,
                       std::span<const float> weights, CombineRule rule, double density,
                       const DareMask &mask) {
  std::vector<std::vector<float>> tensors;
  for (const auto *pair : target.pairs) {
    const Factor &one = pair->*factor;
    tensors.emplace_back(static_cast<size_t>(one.n_elements()));
    to_f32(one, 0, tensors.back());
  }
  return make_factor((target.pairs.front()->*factor).ne,
                     combine_numbers(rule, density, std::move(tensors), weights, mask));
}

}  // namespace

std::string_view to_string(CombineRule rule) {
  switch (rule) {
    case CombineRule::linear:
      return "linear";
    case CombineRule::ties:
      return "ties";
    case CombineRule::dare_linear:
      return "dare_linear";
    case CombineRule::dare_ties:
      return "dare_ties";
  }
  return "linear";
}

std::vector<float> combine_numbers(CombineRule rule, double density,
                                   std::vector<std::vector<float>> tensors,
                                   std::span<const float> weights, const DareMask &mask) {
  for (auto &tensor : tensors) {
    if (density >= 1 || rule == CombineRule::linear) break;
    if (is_random(rule)) {
      drop_and_scale(tensor, density, mask);
    } else {
      keep_largest(tensor, density);
    }
  }
  return has_signs(rule) ? elected_mean(tensors, weights) : weighted_sum(tensors, weights);
}

std::shared_ptr<const Adapter> combine_adapters(std::span<const MergedAdapter> adapters,
                                                CombineRule rule, double density, uint64_t seed) {
  std::mt19937_64 random(seed);
  const DareMask mask = [&](size_t n) {
    std::vector<bool> kept(n);
    for (size_t i = 0; i < n; ++i)
      kept[i] = static_cast<double>(random() >> 11U) * 0x1.0p-53 < density;
    return kept;
  };
  auto combined = std::make_shared<Adapter>();
  combined->name = std::string(to_string(rule));
  for (const auto &[name, target] : targets_of(adapters)) {
    std::vector<float> weights_a;
    std::vector<float> weights_b;
    for (const double weight : target.weights) {
      const double root = std::sqrt(std::abs(weight));
      weights_a.push_back(static_cast<float>(weight < 0 ? -root : root));
      weights_b.push_back(static_cast<float>(root));
    }
    const FactorPair &first = *target.pairs.front();
    combined->pairs.push_back(
        {.target = name,
         .kind = first.kind,
         .n_rank = first.n_rank,
         .a = combine_factors(target, &FactorPair::a, weights_a, rule, density, mask),
         .b = combine_factors(target, &FactorPair::b, weights_b, rule, density, mask)});
  }
  finish_adapter(*combined, {});  // plain pairs, which need nothing of the base
  return combined;
}

}  // namespace patchbay
