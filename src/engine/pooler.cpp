#include "engine/pooler.h"

#include <cassert>
#include <utility>

namespace patchbay {

bool pooling_reads(Pooling pooling, size_t i, size_t n_tokens) {
  switch (pooling) {
    case Pooling::cls:
      return i == 0;
    case Pooling::last:
      return i + 1 == n_tokens;
    case Pooling::none:
    case Pooling::mean:
      break;
  }
  return i < n_tokens;
}

void Pooler::add(size_t i, std::span<const float> hidden) {
  assert(pooling_reads(pooling_, i, n_tokens_));
  if (i < next_) return;
  next_ = i + 1;
  if (pooling_ != Pooling::mean) {
    values_.insert(values_.end(), hidden.begin(), hidden.end());
    return;
  }
  sum_.resize(hidden.size());
  for (size_t k = 0; k < hidden.size(); ++k) sum_[k] += hidden[k];
}

bool Pooler::is_complete() const {
  return pooling_ == Pooling::cls ? next_ > 0 : next_ == n_tokens_;
}

std::vector<float> Pooler::take() {
  assert(is_complete());
  for (const double sum : sum_)
    values_.push_back(static_cast<float>(sum / static_cast<double>(n_tokens_)));
  return std::move(values_);
}

}  // namespace patchbay
