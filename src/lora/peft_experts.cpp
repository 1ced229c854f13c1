#include "lora/peft_experts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "lora/factor_ops.h"

namespace patchbay {
namespace {

bool scales_differ(const std::vector<ExpertPart> &parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const ExpertPart &part) { return part.scale != parts.front().scale; });
}

bool types_differ(const std::vector<ExpertPart> &parts, Factor ExpertPart::*half) {
  return std::any_of(parts.begin(), parts.end(), [&](const ExpertPart &part) {
    return (part.*half).type != (parts.front().*half).type;
  });
}

/// One type for all, one scale for all. Expanding happens only where parts differ.
std::vector<ExpertPart> made_alike(std::vector<ExpertPart> parts) {
  const bool fold = scales_differ(parts);
  const bool expand_a = types_differ(parts, &ExpertPart::a);
  const bool expand_b = fold || types_differ(parts, &ExpertPart::b);
  for (auto &part : parts) {
    if (expand_a) part.a = scaled_f32(part.a, 1);
    if (expand_b) part.b = scaled_f32(part.b, fold ? part.scale : 1);
    if (fold) part.scale = 1;
  }
  return parts;
}

/// Copies the rows of `part` (row_bytes of a full row, fewer where its rank is smaller) into slice
/// `i_expert`.
void copy_slice(std::vector<std::byte> &bytes, size_t slice_bytes, size_t row_bytes,
                const Factor &part, int64_t i_expert) {
  const size_t part_row_bytes = static_cast<size_t>(part.ne[0]) * ggml_type_size(part.type);
  std::byte *slice = bytes.data() + static_cast<size_t>(i_expert) * slice_bytes;
  for (int64_t row = 0; row < part.ne[1]; ++row) {
    std::memcpy(slice + static_cast<size_t>(row) * row_bytes,
                part.data.data() + static_cast<size_t>(row) * part_row_bytes, part_row_bytes);
  }
}

/// All bits 0 is the number 0 in every factor type, so what no part fills is zero.
Factor stack(const std::vector<ExpertPart> &parts, Factor ExpertPart::*half,
             std::array<int64_t, 3> ne) {
  const ggml_type type = (parts.front().*half).type;
  const size_t row_bytes = static_cast<size_t>(ne[0]) * ggml_type_size(type);
  const size_t slice_bytes = row_bytes * static_cast<size_t>(ne[1]);
  std::vector<std::byte> bytes(slice_bytes * static_cast<size_t>(ne[2]));
  for (const auto &part : parts) {
    copy_slice(bytes, slice_bytes, row_bytes, part.*half, part.i_expert);
  }
  return make_factor(type, ne, std::move(bytes));
}

/// [n_out, n_expert]; none when no part has any.
Factor stack_magnitudes(const std::vector<ExpertPart> &parts, int64_t n_expert) {
  const int64_t n_out = parts.front().b.ne[1];
  std::vector<float> values(static_cast<size_t>(n_out * n_expert));
  bool has_any = false;
  for (const auto &part : parts) {
    if (part.magnitude.n_elements() == 0) continue;
    has_any = true;
    to_f32(part.magnitude, 0,
           std::span(values).subspan(static_cast<size_t>(part.i_expert * n_out),
                                     static_cast<size_t>(n_out)));
  }
  if (!has_any) return {.ne = {0, 1, 1}};
  return make_factor({n_out, n_expert, 1}, std::move(values));
}

/// A [n_in, n_rank, n_expert] out of a swapped file: A_e is the transpose of what the file calls
/// B_e.
Factor unfused_a(const FusedFactors &fused) {
  const std::array<int64_t, 3> ne{fused.n_in, fused.n_rank, fused.n_expert};
  if (fused.swapped) return gather(fused.b, ne, {fused.n_rank * fused.n_expert, fused.n_expert, 1});
  Factor view = fused.a;
  view.ne = ne;
  return view;
}

Factor unfused_b(const FusedFactors &fused, int64_t i_row, int64_t n_rows) {
  const std::array<int64_t, 3> ne{fused.n_rank, n_rows, fused.n_expert};
  if (fused.swapped) {
    return gather(fused.a, ne, {fused.n_out, 1, fused.n_rank * fused.n_out}, i_row);
  }
  const int64_t n_columns = fused.n_rank * fused.n_expert;
  return gather(fused.b, ne, {fused.n_expert, n_columns, 1}, i_row * n_columns);
}

}  // namespace

FactorPair stack_experts(std::string target, int64_t n_expert,
                         const std::vector<ExpertPart> &parts) {
  const auto alike = made_alike(parts);
  const int64_t n_rank =
      std::max_element(alike.begin(), alike.end(), [](const auto &one, const auto &other) {
        return one.a.ne[1] < other.a.ne[1];
      })->a.ne[1];
  const auto &first = alike.front();
  return {.target = std::move(target),
          .kind = UseKind::experts,
          .n_rank = n_rank,
          .scale = first.scale,
          .a = stack(alike, &ExpertPart::a, {first.a.ne[0], n_rank, n_expert}),
          .b = stack(alike, &ExpertPart::b, {n_rank, first.b.ne[1], n_expert}),
          .magnitude = stack_magnitudes(alike, n_expert)};
}

FactorPair unfuse_experts(std::string target, const FusedFactors &fused, int64_t i_row,
                          int64_t n_rows) {
  return {.target = std::move(target),
          .kind = UseKind::experts,
          .n_rank = fused.n_rank,
          .scale = 1,
          .a = unfused_a(fused),
          .b = unfused_b(fused, i_row, n_rows)};
}

}  // namespace patchbay
