#pragma once

#include "kernels/attention_tile.h"

namespace patchbay {

/// A tile of attention, written once for the vectors `V` of an instruction set: their type
/// V::Reg of V::k_lanes floats, the number of queries whose sums fit into the registers
/// V::k_together (2 or 4), and what is done with them, as static functions. V is a type of the
/// including file alone, and so is everything that is made of this for it.
template <class V>
class AttentionLoops {
 public:
  template <bool IsF16>
  static void attend(const AttentionTile &tile) {
    for_runs(tile, [&](size_t i, size_t n) {
      by_count(n, [&]<size_t Q>() { weigh<IsF16, Q>(tile, i); });
    });
    for_runs(tile,
             [&](size_t i, size_t n) { by_count(n, [&]<size_t Q>() { mix<IsF16, Q>(tile, i); }); });
  }

 private:
  using Reg = typename V::Reg;
  static constexpr size_t k_lanes = V::k_lanes;
  static constexpr size_t k_groups = k_tile_keys / k_lanes;

  /// Calls each(i, n) for each run of n <= k_together queries from i on that see the same keys, if
  /// there are any.
  template <class Each>
  static void for_runs(const AttentionTile &tile, const Each &each) {
    const auto is_same = [&](size_t i, size_t j) {
      return j < tile.n_queries && tile.ranges[j].first == tile.ranges[i].first &&
             tile.ranges[j].end == tile.ranges[i].end;
    };
    for (size_t i = 0; i < tile.n_queries;) {
      size_t n = 1;
      while (n < V::k_together && is_same(i, i + n)) ++n;
      if (tile.ranges[i].first != tile.ranges[i].end) each(i, n);
      i += n;
    }
  }

  template <class Each>
  static void by_count(size_t n, const Each &each) {
    if (n == 1) each.template operator()<1>();
    if (n == 2) each.template operator()<2>();
    if constexpr (V::k_together > 2) {
      if (n == 3) each.template operator()<3>();
      if (n == 4) each.template operator()<4>();
    }
  }

  /// Numbers j.. of a row of keys or values.
  template <bool IsF16>
  static Reg load(const char *row, size_t j) {
    if constexpr (IsF16) return V::load_f16(row + 2 * j);
    return V::load(reinterpret_cast<const float *>(row) + j);
  }

  /// Queries i.. of the tile against k_lanes keys from `first` on. Keys and queries meet four keys
  /// at a time, so that what is loaded is used by all of them; the order of each sum does not
  /// depend on Q.
  template <bool IsF16, size_t Q>
  static void scores(const AttentionTile &tile, size_t i, size_t first, Reg (&result)[Q]) {
    const float *q = tile.q + i * tile.n_padded;
    const char *k = static_cast<const char *>(tile.k) + first * tile.stride_bytes;
    Reg fours[Q][k_lanes / 4];
    for (size_t four = 0; four < k_lanes / 4; ++four, k += 4 * tile.stride_bytes) {
      Reg sums[Q][4];
      for (auto &of_query : sums) {
        for (auto &sum : of_query) sum = V::set1(0);
      }
      for (size_t j = 0; j < tile.n_padded; j += k_lanes) {
#pragma GCC unroll 4
        for (size_t key = 0; key < 4; ++key) {
          const Reg part = load<IsF16>(k + key * tile.stride_bytes, j);
#pragma GCC unroll 4
          for (size_t l = 0; l < Q; ++l)
            sums[l][key] = V::fmadd(V::load(q + l * tile.n_padded + j), part, sums[l][key]);
        }
      }
      for (size_t l = 0; l < Q; ++l) fours[l][four] = V::sum_parts(sums[l]);
    }
    for (size_t l = 0; l < Q; ++l) result[l] = V::sum_fours(fours[l]);
  }

  /// exp(x) for x <= 0 to 2 ulp: 2^n * e^r with |r| <= ln(2)/2 and Taylor's series for e^r. Below
  /// -87.3, where results leave the normal numbers, that of -87.3.
  static Reg exp_negative(Reg x) {
    // The second operand is what comes out of a NaN.
    x = V::max(V::set1(-87.3F), x);
    const Reg n = V::round(V::mul(x, V::set1(1.44269504F)));
    // ln(2) in two parts, the first one short enough for an exact product with n.
    Reg r = V::fnmadd(n, V::set1(0.693359375F), x);
    r = V::fnmadd(n, V::set1(-2.12194440e-4F), r);
    Reg e = V::set1(1.0F / 5040);
    const float factors[] = {1.0F / 720, 1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1, 1};
    for (const float factor : factors) e = V::fmadd(e, r, V::set1(factor));
    return V::times_power_of_2(e, n);
  }

  /// From the scores of query i to the weights of its keys.
  static void soften(const AttentionTile &tile, size_t i, const Reg (&score)[k_groups]) {
    Reg most = score[0];
    for (size_t group = 1; group < k_groups; ++group) most = V::max(most, score[group]);
    const float before = tile.max[i];
    const float of_tile = V::largest_lane(most);
    const float largest = of_tile > before ? of_tile : before;
    Reg sum = V::set1(0);
    for (size_t group = 0; group < k_groups; ++group) {
      const Reg weight = exp_negative(V::sub(score[group], V::set1(largest)));
      const Reg seen = V::select(tile.ranges[i], group, weight, V::set1(0));
      V::store(tile.weights + i * k_tile_keys + group * k_lanes, seen);
      sum = V::add(sum, seen);
    }
    const float factor = V::first_lane(exp_negative(V::set1(before - largest)));
    tile.factors[i] = factor;
    tile.max[i] = largest;
    tile.sum[i] = tile.sum[i] * factor + V::sum_of_lanes(sum);
  }

  /// Weights of Q queries from i on, which see the same keys.
  template <bool IsF16, size_t Q>
  static void weigh(const AttentionTile &tile, size_t i) {
    const KeyRange range = tile.ranges[i];
    const Reg nothing = V::set1(-__builtin_inff());
    Reg score[Q][k_groups];
    for (size_t group = 0; group < k_groups; ++group) {
      const bool is_seen = range.first < (group + 1) * k_lanes && range.end > group * k_lanes;
      Reg of_group[Q];
      for (auto &each : of_group) each = nothing;
      if (is_seen) scores<IsF16, Q>(tile, i, group * k_lanes, of_group);
      for (size_t l = 0; l < Q; ++l)
        score[l][group] = V::select(range, group, of_group[l], nothing);
    }
    for (size_t l = 0; l < Q; ++l) soften(tile, i + l, score[l]);
  }

  /// N vectors of the sums of Q queries from i on, which see the same keys, from column `first` on.
  template <bool IsF16, size_t Q, size_t N>
  static void mix_columns(const AttentionTile &tile, size_t i, size_t first) {
    float *acc = tile.acc + i * tile.n_padded + first;
    const float *weights = tile.weights + i * k_tile_keys;
    const KeyRange range = tile.ranges[i];
    Reg sums[Q][N];
    for (size_t l = 0; l < Q; ++l) {
      const Reg factor = V::set1(tile.factors[i + l]);
      for (size_t j = 0; j < N; ++j)
        sums[l][j] = V::mul(factor, V::load(acc + l * tile.n_padded + j * k_lanes));
    }
    for (size_t key = range.first; key < range.end; ++key) {
      const char *v = static_cast<const char *>(tile.v) + key * tile.stride_bytes;
#pragma GCC unroll 4
      for (size_t j = 0; j < N; ++j) {
        const Reg part = load<IsF16>(v, first + j * k_lanes);
#pragma GCC unroll 4
        for (size_t l = 0; l < Q; ++l)
          sums[l][j] = V::fmadd(V::set1(weights[l * k_tile_keys + key]), part, sums[l][j]);
      }
    }
    for (size_t l = 0; l < Q; ++l) {
      for (size_t j = 0; j < N; ++j) V::store(acc + l * tile.n_padded + j * k_lanes, sums[l][j]);
    }
  }

  template <bool IsF16, size_t Q>
  static void mix(const AttentionTile &tile, size_t i) {
    constexpr size_t k_columns = 4;
    size_t first = 0;
    for (; first + k_columns * k_lanes <= tile.n_padded; first += k_columns * k_lanes)
      mix_columns<IsF16, Q, k_columns>(tile, i, first);
    for (; first < tile.n_padded; first += k_lanes) mix_columns<IsF16, Q, 1>(tile, i, first);
  }
};

}  // namespace patchbay
