#include "engine/step_schedule.h"

#include <algorithm>

namespace patchbay {

std::vector<uint32_t> schedule_step(std::span<const SeqProgress> sequences,
                                    const StepLimits &limits) {
  const auto n_missing = [&](size_t i) { return sequences[i].n_tokens - sequences[i].n_computed; };
  std::vector<uint32_t> n_now(sequences.size(), 0);
  uint32_t n_left = limits.n_ubatch;
  for (size_t i = 0; i < sequences.size() && n_left > 0; ++i) {
    if (n_missing(i) != 1) continue;
    n_now[i] = 1;
    --n_left;
  }
  const bool some_decode = n_left < limits.n_ubatch;
  if (some_decode) n_left = std::min(n_left, limits.n_prefill_beside);
  for (size_t i = 0; i < sequences.size() && n_left > 0; ++i) {
    if (n_missing(i) <= 1) continue;
    n_now[i] = std::min(n_missing(i), n_left);
    n_left -= n_now[i];
  }
  return n_now;
}

}  // namespace patchbay
