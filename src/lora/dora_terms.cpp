#include "lora/dora_terms.h"

#include <span>

#include "base/parallel.h"
#include "base/rounding.h"
#include "kernels/lora_step.h"

namespace patchbay {
namespace {

/// Rows of the base that are held dequantised at a time.
constexpr int64_t k_block_rows = 32;

std::vector<float> numbers(const Factor &factor, int64_t first, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  to_f32(factor, first, values);
  return values;
}

double dot(std::span<const float> one, std::span<const float> other) {
  double sum = 0;
  for (size_t i = 0; i < one.size(); ++i) sum += static_cast<double>(one[i]) * other[i];
  return sum;
}

/// row . (matrix row), for a matrix [n][n] of n = row.size().
double form(std::span<const float> row, std::span<const double> matrix) {
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    double of_row = 0;
    for (size_t j = 0; j < row.size(); ++j) of_row += matrix[i * row.size() + j] * row[j];
    sum += row[i] * of_row;
  }
  return sum;
}

/// A A^T of rows a [n_rank][n_in].
std::vector<double> gram_of_rows(std::span<const float> a, size_t n_rank) {
  const size_t n_in = a.size() / n_rank;
  std::vector<double> gram(n_rank * n_rank);
  for_each_part(n_rank, [&](size_t i) {
    for (size_t j = 0; j < n_rank; ++j) {
      gram[i * n_rank + j] = dot(a.subspan(i * n_in, n_in), a.subspan(j * n_in, n_in));
    }
  });
  return gram;
}

DoraTerms empty_terms(const FactorPair &pair) {
  const auto n = static_cast<size_t>(pair.magnitude.n_elements());
  return {.magnitude = numbers(pair.magnitude, 0, pair.magnitude.n_elements()),
          .base = std::vector<float>(n),
          .cross = std::vector<float>(n),
          .delta = std::vector<float>(n)};
}

void put(DoraTerms &terms, size_t i, double base, double cross, double delta, double scale) {
  terms.base[i] = static_cast<float>(base);
  terms.cross[i] = static_cast<float>(2 * scale * cross);
  terms.delta[i] = static_cast<float>(scale * scale * delta);
}

/// Rows [first, first + n) of an expert: W_i A^T by the kernel that computes A x in a step.
void add_rows(const FactorPair &pair, const BaseTensors &base, const GgufTensor &weight,
              int64_t i_expert, std::span<const float> a, std::span<const double> gram,
              int64_t first, int64_t n, DoraTerms &terms) {
  const int64_t n_in = weight.ne[0];
  const int64_t row = i_expert * weight.ne[1] + first;
  std::vector<float> rows(static_cast<size_t>(n * n_in));
  base.read_rows(weight, row, rows);
  std::vector<float> low(static_cast<size_t>(n * pair.n_rank));
  lora_shrink(best_isa(), {.a = a.data(),
                           .n_in = n_in,
                           .n_rank = pair.n_rank,
                           .x = rows.data(),
                           .x_stride = n_in,
                           .n_tokens = n,
                           .low = low.data(),
                           .low_stride = pair.n_rank});
  const auto b = numbers(pair.b, row * pair.n_rank, n * pair.n_rank);
  const auto n_rank = static_cast<size_t>(pair.n_rank);
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    const auto w =
        std::span(rows).subspan(i * static_cast<size_t>(n_in), static_cast<size_t>(n_in));
    const auto b_row = std::span(b).subspan(i * n_rank, n_rank);
    put(terms, static_cast<size_t>(row) + i, dot(w, w),
        dot(b_row, std::span(low).subspan(i * n_rank, n_rank)), form(b_row, gram), pair.scale);
  }
}

/// An expert that the adapter leaves alone: its rows have the lengths that they have.
void keep_rows(DoraTerms &terms, size_t first, size_t n) {
  std::fill_n(terms.magnitude.begin() + static_cast<ptrdiff_t>(first), n, 1.0F);
  std::fill_n(terms.base.begin() + static_cast<ptrdiff_t>(first), n, 1.0F);
}

DoraTerms terms_of_products(const FactorPair &pair, const BaseTensors &base,
                            const GgufTensor &weight) {
  DoraTerms terms = empty_terms(pair);
  const int64_t n_out = weight.ne[1];
  for (int64_t e = 0; e < pair.b.ne[2]; ++e) {
    const auto of_expert = std::span(terms.magnitude)
                               .subspan(static_cast<size_t>(e * n_out), static_cast<size_t>(n_out));
    if (std::ranges::all_of(of_expert, [](float m) { return m == 0; })) {
      keep_rows(terms, static_cast<size_t>(e * n_out), static_cast<size_t>(n_out));
      continue;
    }
    const int64_t n_a = pair.a.ne[0] * pair.n_rank;
    const auto a = numbers(pair.a, e * n_a, n_a);
    const auto gram = gram_of_rows(a, static_cast<size_t>(pair.n_rank));
    for_each_part(static_cast<size_t>(ceil_div(n_out, k_block_rows)), [&](size_t i) {
      const int64_t first = static_cast<int64_t>(i) * k_block_rows;
      add_rows(pair, base, weight, e, a, gram, first, std::min(k_block_rows, n_out - first), terms);
    });
  }
  return terms;
}

/// Sums over some rows of a table.
struct TableSums {
  std::vector<double> squares;  // [n_embd], of E
  std::vector<double> cross;    // [n_embd][n_rank], E^T A
  std::vector<double> gram;     // [n_rank][n_rank], A^T A

  TableSums(size_t n_embd, size_t n_rank)
      : squares(n_embd), cross(n_embd * n_rank), gram(n_rank * n_rank) {}

  void add_row(std::span<const float> e, std::span<const float> a) {
    const size_t n_rank = a.size();
    for (size_t d = 0; d < e.size(); ++d) {
      squares[d] += static_cast<double>(e[d]) * e[d];
      for (size_t r = 0; r < n_rank; ++r) cross[d * n_rank + r] += static_cast<double>(e[d]) * a[r];
    }
    for (size_t i = 0; i < n_rank; ++i) {
      for (size_t j = 0; j < n_rank; ++j) {
        gram[i * n_rank + j] += static_cast<double>(a[i]) * a[j];
      }
    }
  }
  void add(const TableSums &other) {
    const auto add_all = [](std::vector<double> &to, const std::vector<double> &from) {
      for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
    };
    add_all(squares, other.squares);
    add_all(cross, other.cross);
    add_all(gram, other.gram);
  }
};

/// Over the vocabulary, in so many stretches whatever the number of threads, so that the order of
/// summing is always the same.
TableSums sum_table(const FactorPair &pair, const BaseTensors &base, const GgufTensor &table) {
  constexpr int64_t k_stretches = 16;
  const int64_t n_rows = table.ne[1];
  const auto n_embd = static_cast<size_t>(table.ne[0]);
  const auto n_rank = static_cast<size_t>(pair.n_rank);
  std::vector<TableSums> sums(k_stretches, TableSums(n_embd, n_rank));
  for_each_part(k_stretches, [&](size_t i) {
    const auto stretch = static_cast<int64_t>(i);
    std::vector<float> e(n_embd);
    for (int64_t row = n_rows * stretch / k_stretches; row < n_rows * (stretch + 1) / k_stretches;
         ++row) {
      base.read_rows(table, row, e);
      sums[i].add_row(e, numbers(pair.a, row * pair.n_rank, pair.n_rank));
    }
  });
  for (size_t i = 1; i < sums.size(); ++i) sums[0].add(sums[i]);
  return std::move(sums[0]);
}

DoraTerms terms_of_table(const FactorPair &pair, const BaseTensors &base, const GgufTensor &table) {
  DoraTerms terms = empty_terms(pair);
  const TableSums sums = sum_table(pair, base, table);
  const auto n_rank = static_cast<size_t>(pair.n_rank);
  for (size_t d = 0; d < terms.magnitude.size(); ++d) {
    const auto b = numbers(pair.b, static_cast<int64_t>(d) * pair.n_rank, pair.n_rank);
    double cross = 0;
    for (size_t r = 0; r < n_rank; ++r) cross += b[r] * sums.cross[d * n_rank + r];
    put(terms, d, sums.squares[d], cross, form(b, sums.gram), pair.scale);
  }
  return terms;
}

}  // namespace

std::shared_ptr<const DoraTerms> make_dora_terms(const FactorPair &pair, const BaseTensors &base,
                                                 const GgufTensor &weight) {
  return std::make_shared<const DoraTerms>(pair.kind == UseKind::embed
                                               ? terms_of_table(pair, base, weight)
                                               : terms_of_products(pair, base, weight));
}

}  // namespace patchbay
