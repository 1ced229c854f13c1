#include "tools/row_changer.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <mutex>

#include "lora/dora_terms.h"
#include "lora/factor_ops.h"
#include "model/fold_row.h"

namespace patchbay {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// B [n_rank, n_out] as n_rank rows of n_out numbers.
std::vector<float> transposed_numbers(const Factor &b) { return numbers_of(transposed(b)); }

void fold_rows(const HadamardFolding *folding, int64_t n_per_row, std::span<float> rows) {
  if (folding == nullptr) return;
  for (; !rows.empty(); rows = rows.subspan(static_cast<size_t>(n_per_row)))
    fold_row(*folding, rows.first(static_cast<size_t>(n_per_row)));
}

float squared_length(std::span<const float> row) {
  double sum = 0;
  for (const float value : row) sum += static_cast<double>(value) * value;
  return static_cast<float>(sum);
}

}  // namespace

RowChanger::RowChanger(const TensorChange &change, const std::array<int64_t, 4> &ne,
                       const HadamardFolding *folding, uint32_t n_threads, const ReadRows &read)
    : change_(change),
      n_per_row_(ne[0]),
      n_per_expert_(ne[1]),
      n_rows_(ne[1] * ne[2] * ne[3]),
      folding_(folding) {
  for (const auto &one : change.pairs) {
    LowRank low_rank = by_rows(one);
    const Factor &lengths = one.pair->magnitude;
    if (lengths.n_elements() > 0 && one.pair->kind == UseKind::embed) {
      low_rank.gains = column_gains(low_rank, lengths, n_threads, read);
    } else {
      low_rank.lengths = numbers_of(lengths);
    }
    low_ranks_.push_back(std::move(low_rank));
  }
}

RowChanger::LowRank RowChanger::by_rows(const TensorChange::Pair &one) const {
  const FactorPair &pair = *one.pair;
  const bool is_table = pair.kind == UseKind::embed;
  LowRank low_rank{.n_rank = pair.n_rank,
                   .scale = one.scale(),
                   .coefficients = is_table ? &pair.a : &pair.b,
                   .basis = is_table ? transposed_numbers(pair.b) : numbers_of(pair.a)};
  fold_rows(folding_, n_per_row_, low_rank.basis);
  return low_rank;
}

/// PEFT's lengths of a table are those of its columns.
std::vector<float> RowChanger::column_gains(const LowRank &low_rank, const Factor &lengths,
                                            uint32_t n_threads, const ReadRows &read) const {
  std::vector<double> squares(static_cast<size_t>(n_per_row_));
  std::mutex mutex;
  for_each_chunk(n_rows_, n_per_expert_, rows_per_chunk(n_per_row_), n_threads,
                 [&](RowChunk chunk) {
                   std::vector<float> base(static_cast<size_t>(chunk.n_rows * n_per_row_));
                   std::vector<float> delta(base.size());
                   read(chunk, base);
                   low_rank_rows(low_rank, chunk, delta);
                   std::vector<double> sums(squares.size());
                   for (size_t i = 0; i < base.size(); ++i) {
                     const double value = static_cast<double>(base[i]) + low_rank.scale * delta[i];
                     sums[i % sums.size()] += value * value;
                   }
                   const std::scoped_lock lock(mutex);
                   for (size_t i = 0; i < sums.size(); ++i) squares[i] += sums[i];
                 });
  std::vector<float> gains = numbers_of(lengths);
  for (size_t i = 0; i < gains.size(); ++i)
    gains[i] = dora_gain(gains[i], static_cast<float>(squares[i]));
  return gains;
}

/// B A for the rows of a chunk, without the scale.
void RowChanger::low_rank_rows(const LowRank &low_rank, RowChunk chunk,
                               std::span<float> out) const {
  const int64_t n_rank = low_rank.n_rank;
  std::vector<float> coefficients(static_cast<size_t>(chunk.n_rows * n_rank));
  to_f32(*low_rank.coefficients, chunk.first * n_rank, coefficients);
  const int64_t i_expert = chunk.first / n_per_expert_;
  const float *basis = low_rank.basis.data() + i_expert * n_rank * n_per_row_;
  Eigen::Map<Matrix>(out.data(), chunk.n_rows, n_per_row_).noalias() =
      Eigen::Map<const Matrix>(coefficients.data(), chunk.n_rows, n_rank) *
      Eigen::Map<const Matrix>(basis, n_rank, n_per_row_);
}

bool RowChanger::leaves_alone(const LowRank &low_rank, RowChunk chunk) const {
  if (low_rank.lengths.empty()) return false;
  const int64_t i_expert = chunk.first / n_per_expert_;
  const auto lengths = std::span(low_rank.lengths)
                           .subspan(static_cast<size_t>(i_expert * n_per_expert_),
                                    static_cast<size_t>(n_per_expert_));
  return std::ranges::all_of(lengths, [](float length) { return length == 0; });
}

void RowChanger::add(const LowRank &low_rank, RowChunk chunk, std::span<const float> base,
                     std::span<float> changed) const {
  if (leaves_alone(low_rank, chunk)) return;
  std::vector<float> delta(base.size());
  low_rank_rows(low_rank, chunk, delta);
  for (float &value : delta) value *= low_rank.scale;
  if (low_rank.lengths.empty() && low_rank.gains.empty()) {
    for (size_t i = 0; i < delta.size(); ++i) changed[i] += delta[i];
    return;
  }
  // DoRA: the changed weight is brought to its lengths, and the change is what that makes of W.
  const auto n_per_row = static_cast<size_t>(n_per_row_);
  for (size_t i = 0; i < delta.size(); ++i) delta[i] += base[i];
  for (size_t i_row = 0; i_row < static_cast<size_t>(chunk.n_rows); ++i_row) {
    const auto row = std::span(delta).subspan(i_row * n_per_row, n_per_row);
    const bool by_row = !low_rank.lengths.empty();
    const float gain = by_row
                           ? dora_gain(low_rank.lengths[static_cast<size_t>(chunk.first) + i_row],
                                       squared_length(row))
                           : 1;
    for (size_t i = 0; i < n_per_row; ++i) {
      const size_t at = i_row * n_per_row + i;
      changed[at] += (by_row ? gain : low_rank.gains[i]) * row[i] - base[at];
    }
  }
}

void RowChanger::replace(const TensorChange::NewNumbers &numbers, RowChunk chunk,
                         std::span<const float> base, std::span<float> changed) const {
  const auto &[tensor, value, rows] = *numbers.replacement;
  const auto n_per_row = static_cast<size_t>(n_per_row_);
  std::vector<float> row(n_per_row);
  for (int64_t i = 0; i < chunk.n_rows; ++i) {
    int64_t i_value = chunk.first + i;
    if (!rows.empty()) {
      const auto found = std::ranges::lower_bound(rows, i_value);
      if (found == rows.end() || *found != i_value) continue;
      i_value = found - rows.begin();
    }
    to_f32(value, i_value * n_per_row_, row);
    fold_rows(folding_, n_per_row_, row);
    const size_t begin = static_cast<size_t>(i) * n_per_row;
    for (size_t j = 0; j < n_per_row; ++j) {
      const size_t at = begin + j;
      // Numbers that nothing else changes come out as they are, to the last bit.
      const bool alone = numbers.strength == 1 && changed[at] == base[at];
      changed[at] = alone ? row[j] : changed[at] + numbers.strength * (row[j] - base[at]);
    }
  }
}

void RowChanger::add_bias(const TensorChange::Pair &pair, std::span<float> changed) const {
  const std::vector<float> bias = numbers_of(pair.pair->bias);
  for (size_t i = 0; i < bias.size(); ++i) changed[i] += pair.scale() * bias[i];
}

void RowChanger::apply(RowChunk chunk, std::span<const float> base,
                       std::span<float> changed) const {
  std::ranges::copy(base, changed.begin());
  for (const auto &low_rank : low_ranks_) add(low_rank, chunk, base, changed);
  for (const auto &numbers : change_.replacements) replace(numbers, chunk, base, changed);
  for (const auto &pair : change_.biases) add_bias(pair, changed);
}

}  // namespace patchbay
