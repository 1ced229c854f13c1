#pragma once

#include "patchbay/request.hpp"

namespace patchbay {

// What a tenant is charged, in units of one prompt token of the base: about half a millisecond of
// the machine in docs/decisions/0010-fair-sharing.md.

constexpr double k_prompt_token_cost = 1;
/// A prompt's tokens share the reading of the weights, those that are drawn do with few others. The
/// value of VTC's evaluation (arXiv 2401.00588), and what was measured with eight sequences.
constexpr double k_drawn_token_cost = 2;
/// Ranks that double what a token costs: 125 were measured for prompts, 36 for eight sequences that
/// decode with an adapter each.
constexpr double k_rank_of_double_cost = 64;

/// What a token of the request costs in place of one of the base: 1 and the ranks that it wears
/// over k_rank_of_double_cost. An adapter's rank is the largest of its pairs, a request's ranks are
/// those of its heaviest span.
[[nodiscard]] double adapter_cost_factor(const Request &request);

}  // namespace patchbay
