#include "engine/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

namespace patchbay {
namespace {

Expected<void> check_range(const char *name, float value, float low, float high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorCode::invalid_argument,
              fmt::format("{} must be from {} to {}, found {}", name, low, high, value));
}

/// Probabilities of candidates sorted by falling logit, at the given temperature.
std::vector<double> softmax(std::span<const float> logits, double temperature) {
  std::vector<double> probs;
  double sum = 0;
  for (const float logit : logits) {
    probs.push_back(std::exp((static_cast<double>(logit) - logits.front()) / temperature));
    sum += probs.back();
  }
  for (double &prob : probs) prob /= sum;
  return probs;
}

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
  for (const auto &[token, bias] : params.logit_bias) {
    if (token < 0 || token >= n_vocab) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias names token {} of a vocabulary of {}", token, n_vocab));
    }
    const bool forbids = bias == -std::numeric_limits<float>::infinity();
    if (!forbids && !(std::abs(bias) <= k_huge)) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("logit_bias of token {} must be -inf, or from {} to {}, found {}",
                              token, -k_huge, k_huge, bias));
    }
  }
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
    const auto best = std::ranges::max_element(logits);
    if (std::isfinite(*best)) return static_cast<int32_t>(best - logits.begin());
  }
  adjusted_.assign(logits.begin(), logits.end());
  apply_bias_and_penalties(adjusted_);
  constexpr float k_never = -std::numeric_limits<float>::infinity();
  for (float &logit : adjusted_) {
    if (!std::isfinite(logit)) logit = k_never;
  }
  const auto best = std::ranges::max_element(adjusted_);
  const auto best_token = static_cast<int32_t>(best - adjusted_.begin());
  if (params_.temperature == 0 || *best == k_never) return best_token;

  std::vector<Candidate> candidates;
  for (size_t i = 0; i < adjusted_.size(); ++i) {
    if (adjusted_[i] != k_never) candidates.push_back({static_cast<int32_t>(i), adjusted_[i]});
  }
  return draw(std::move(candidates));
}

int32_t Sampler::draw(std::vector<Candidate> candidates) {
  // Ties by id, so that the order and with it the draw are the same everywhere.
  const auto better = [](const Candidate &a, const Candidate &b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  size_t n_kept = candidates.size();
  if (params_.top_k > 0) n_kept = std::min(n_kept, static_cast<size_t>(params_.top_k));
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n_kept),
                    candidates.end(), better);

  std::vector<float> logits;
  for (size_t i = 0; i < n_kept; ++i) logits.push_back(candidates[i].logit);
  const std::vector<double> probs = softmax(logits, 1);
  double sum = 0;
  for (size_t i = 0; i < probs.size(); ++i) {
    // The best candidate always stays; the nucleus ends with the one that reaches top_p.
    if (i > 0 &&
        (sum >= static_cast<double>(params_.top_p) || probs[i] < params_.min_p * probs.front())) {
      logits.resize(i);
      break;
    }
    sum += probs[i];
  }

  // 53 random bits as a fraction, not std::uniform_real_distribution, whose result is up to the
  // library.
  double left = static_cast<double>(random_() >> 11U) * 0x1.0p-53;
  const std::vector<double> weights = softmax(logits, params_.temperature);
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return candidates[i].token;
  }
  return candidates[weights.size() - 1].token;
}

}  // namespace patchbay
