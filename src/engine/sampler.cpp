#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <unordered_map>

namespace patchbay {
namespace {

Expected<void> check_range(const char *name, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} must be from {} to {}, found {}", name, low, high, value));
}

/// Where the largest entry is, of equals the first; 0 when all are NaN. Sixteen
/// maxima side by side: the compiler makes vectors of them, and this runs over the vocabulary for
/// every token.
size_t index_of_largest(std::span<const float> logits) {
  constexpr size_t k_lanes = 16;
  std::array<float, k_lanes> best{};
  best.fill(-std::numeric_limits<float>::infinity());
  size_t i = 0;
  for (; i + k_lanes <= logits.size(); i += k_lanes) {
    const float *block = logits.data() + i;
    for (size_t lane = 0; lane < k_lanes; ++lane)
      best[lane] = block[lane] > best[lane] ? block[lane] : best[lane];
  }
  for (; i < logits.size(); ++i) best[0] = logits[i] > best[0] ? logits[i] : best[0];
  const float largest = *std::ranges::max_element(best);
  const auto found = std::ranges::find(logits, largest);
  return found == logits.end() ? 0 : static_cast<size_t>(found - logits.begin());
}

/// Entries further below the best one than this, in units of the temperature, are together less
/// than the 53 random bits of a draw can tell from nothing: e^-52 times a vocabulary of a million
/// is 3e-17.
constexpr float k_reach = 52;

}  // namespace

Expected<void> check_sampling(const SamplingParams &params, int32_t n_vocab) {
  constexpr float k_huge = 1e6F;
  for (const auto &checked :
       {check_range("temperature", params.temperature, 0, k_huge),
        check_range("top_p", params.top_p, 0, 1), check_range("min_p", params.min_p, 0, 1),
        check_range("repeat_penalty", params.repeat_penalty, 1 / k_huge, k_huge),
        check_range("presence_penalty", params.presence_penalty, -k_huge, k_huge),
        check_range("frequency_penalty", params.frequency_penalty, -k_huge, k_huge)}) {
    if (!checked) return checked;
  }
  if (params.top_k < 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("top_k must be at least 0, found {}", params.top_k));
  if (params.n_penalty_last < -1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("n_penalty_last must be at least -1, found {}", params.n_penalty_last));
  std::set<int32_t> forbidden;
  for (const auto &[token, bias] : params.logit_bias) {
    if (token < 0 || token >= n_vocab) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias names token {} of a vocabulary of {}", token, n_vocab));
    }
    const bool forbids = bias == -std::numeric_limits<float>::infinity();
    if (forbids) forbidden.insert(token);
    if (!forbids && !(std::abs(bias) <= k_huge)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias of token {} must be -inf, or from {} to {}, found {}",
                              token, -k_huge, k_huge, bias));
    }
  }
  if (std::ssize(forbidden) >= n_vocab)
    return fail(ErrorCode::invalid_argument, "logit_bias forbids every token of the vocabulary");
  return {};
}

Sampler::Sampler(SamplingParams params) : params_(std::move(params)), random_(params_.seed) {}

void Sampler::accept(int32_t token) { history_.push_back(token); }

void Sampler::apply_bias_and_penalties(std::span<float> logits) const {
  for (const auto &[token, bias] : params_.logit_bias) logits[static_cast<size_t>(token)] += bias;
  const size_t n_last =
      params_.n_penalty_last < 0
          ? history_.size()
          : std::min(history_.size(), static_cast<size_t>(params_.n_penalty_last));
  std::unordered_map<int32_t, int> counts;
  for (size_t i = history_.size() - n_last; i < history_.size(); ++i) ++counts[history_[i]];
  for (const auto &[token, count] : counts) {
    float &logit = logits[static_cast<size_t>(token)];
    logit = logit > 0 ? logit / params_.repeat_penalty : logit * params_.repeat_penalty;
    logit -= params_.presence_penalty + params_.frequency_penalty * static_cast<float>(count);
  }
}

bool Sampler::changes_logits() const {
  return !params_.logit_bias.empty() || params_.repeat_penalty != 1 ||
         params_.presence_penalty != 0 || params_.frequency_penalty != 0;
}

int32_t Sampler::sample(std::span<const float> logits) {
  // The most common case needs no copy of the vocabulary.
  if (params_.temperature == 0 && !changes_logits()) {
    const size_t best = index_of_largest(logits);
    if (std::isfinite(logits[best])) return static_cast<int32_t>(best);
  }
  adjusted_.assign(logits.begin(), logits.end());
  // Nothing finite: all are equal.
  return sample_adjusted().value_or(0);
}

std::optional<int32_t> Sampler::sample(std::span<const float> logits, const TokenMask &allowed) {
  // Mostly the best token is one that is allowed.
  if (params_.temperature == 0 && !changes_logits()) {
    const auto best = static_cast<int32_t>(index_of_largest(logits));
    if (allowed.allows(best) && std::isfinite(logits[static_cast<size_t>(best)])) return best;
  }
  adjusted_.assign(logits.begin(), logits.end());
  allowed.leave_out(adjusted_);
  return sample_adjusted();
}

std::optional<int32_t> Sampler::sample_adjusted() {
  if (changes_logits()) apply_bias_and_penalties(adjusted_);
  constexpr float k_never = -std::numeric_limits<float>::infinity();
  for (float &logit : adjusted_) {
    if (!std::isfinite(logit)) logit = k_never;
  }
  const size_t best = index_of_largest(adjusted_);
  const float most = adjusted_[best];
  if (most == k_never) return std::nullopt;
  if (params_.temperature == 0) return static_cast<int32_t>(best);

  // Tails are cut by probabilities at temperature 1.
  const float least = most - k_reach * std::max(params_.temperature, 1.0F);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < adjusted_.size(); ++i) {
    if (adjusted_[i] >= least) candidates.push_back({static_cast<int32_t>(i), adjusted_[i]});
  }
  return draw(std::move(candidates), most);
}

void Sampler::cut_tail(std::vector<Candidate> &candidates, float most) const {
  // Ties by id, so that the order and with it the draw are the same everywhere.
  const auto better = [](const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  size_t n_sorted = 0;
  const auto sort_up_to = [&](size_t n) {
    n = std::min(n, candidates.size());
    const auto begin = candidates.begin() + static_cast<ptrdiff_t>(n_sorted);
    const auto end = candidates.begin() + static_cast<ptrdiff_t>(n);
    std::nth_element(begin, end, candidates.end(), better);
    std::sort(begin, end, better);
    n_sorted = n;
  };
  if (const auto top_k = static_cast<size_t>(params_.top_k);
      top_k > 0 && top_k < candidates.size()) {
    sort_up_to(top_k);
    candidates.resize(top_k);
  }
  if (params_.top_p >= 1 && params_.min_p <= 0) return;

  const auto weight = [most](const Candidate &candidate) {
    return std::exp(static_cast<double>(candidate.logit) - most);
  };
  double all = 0;
  for (const auto &candidate : candidates) all += weight(candidate);
  double sum = 0;
  // The nucleus is mostly a small part of the vocabulary: no more is sorted than is looked at.
  constexpr size_t k_first_sorted = 64;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == n_sorted) sort_up_to(std::max(4 * n_sorted, k_first_sorted));
    // The best candidate always stays, its weight is 1; the nucleus ends with the one that reaches
    // top_p.
    const double probability = weight(candidates[i]) / all;
    if (i > 0 && (sum >= static_cast<double>(params_.top_p) ||
                  probability < static_cast<double>(params_.min_p) / all)) {
      candidates.resize(i);
      return;
    }
    sum += probability;
  }
}

int32_t Sampler::draw(std::vector<Candidate> candidates, float most) {
  cut_tail(candidates, most);
  std::vector<double> weights;
  double sum = 0;
  for (const auto &candidate : candidates) {
    weights.push_back(std::exp((static_cast<double>(candidate.logit) - most) /
                               static_cast<double>(params_.temperature)));
    sum += weights.back();
  }
  // 53 random bits as a fraction, not std::uniform_real_distribution, whose result is up to the
  // library.
  double left = static_cast<double>(random_() >> 11U) * 0x1.0p-53 * sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return candidates[i].token;
  }
  return candidates.back().token;
}

}  // namespace patchbay
