#include "lora/peft_splits.h"

#include "lora/factor_ops.h"

namespace patchbay {
namespace {

FactorPair make_pair(const AdaptableUse &use, int64_t n_rank, Factor a, Factor b) {
  return {.target = use.name,
          .kind = use.kind,
          .n_rank = n_rank,
          .scale = 1,
          .a = std::move(a),
          .b = std::move(b)};
}

std::array<FactorPair, 2> split_halves(const Factor &a, const Factor &b, const AdaptableUse &first,
                                       const AdaptableUse &second) {
  const int64_t r = b.ne[0];
  const auto rows = [&](int64_t i_row, int64_t n_rows) {
    return gather(b, {r, n_rows, 1}, {1, r, 0}, i_row * r);
  };
  return {make_pair(first, r, a, rows(0, first.ne[1])),
          make_pair(second, r, a, rows(first.ne[1], second.ne[1]))};
}

/// (B_h A)^T = A^T B_h^T: what was B becomes the A of the transposed weight.
std::array<FactorPair, 2> split_heads(const Factor &a, const Factor &b, const AdaptableUse &first,
                                      const AdaptableUse &second) {
  const int64_t r = b.ne[0];
  const int64_t n_in = a.ne[0];
  const int64_t n_first = first.ne[0];
  const int64_t n_second = second.ne[1];
  const int64_t n_head = first.ne[2];
  const int64_t head = (n_first + n_second) * r;  // numbers of B that belong to one
  return {make_pair(first, r, gather(b, {n_first, r, n_head}, {r, 1, head}),
                    gather(a, {r, n_in, n_head}, {n_in, 1, 0})),
          make_pair(second, r, gather(a, {n_in, r, n_head}, {1, n_in, 0}),
                    gather(b, {r, n_second, n_head}, {1, r, head}, n_first * r))};
}

}  // namespace

std::optional<SplitShape> split_shape(SplitPlan plan, const AdaptableUse &first,
                                      const AdaptableUse &second) {
  if (plan == SplitPlan::halves) {
    const bool fits = first.kind == UseKind::linear && second.kind == UseKind::linear &&
                      first.ne[0] == second.ne[0];
    return fits ? std::optional(SplitShape{first.ne[0], first.ne[1] + second.ne[1]}) : std::nullopt;
  }
  const bool fits = first.kind == UseKind::experts && second.kind == UseKind::experts &&
                    first.ne[1] == second.ne[0] && first.ne[2] == second.ne[2];
  return fits ? std::optional(SplitShape{second.ne[0], first.ne[2] * (first.ne[0] + second.ne[1])})
              : std::nullopt;
}

std::array<FactorPair, 2> split_pair(const Factor &a, const Factor &b, SplitPlan plan,
                                     const AdaptableUse &first, const AdaptableUse &second) {
  return plan == SplitPlan::halves ? split_halves(a, b, first, second)
                                   : split_heads(a, b, first, second);
}

}  // namespace patchbay
