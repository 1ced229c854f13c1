#pragma once

#include "kernels/product_jobs.h"
#include "kernels/product_unpack.h"

namespace patchbay {

/// Products of one panel, written once for the vectors `V` of an instruction set: V::Codes holds 4
/// codes of each of V::k_rows rows, V::Ints and V::Floats a number of each; a tile has V::k_halves
/// such parts. V::k_together tokens have their sums in registers at the same time. V is a type of
/// the including file alone, and so is everything that is made of this for it.
template <class V>
class ProductLoops {
 public:
  /// A quantised format of product_unpack.h.
  template <class F>
  static void quantised(const PanelJob &job) {
    each_part<V::k_together>(
        job, [&](const Part &part) { by_count<Quantised<F>, V::k_together>(job, part); });
  }

  static void f16(const PanelJob &job) {
    each_part<V::k_together / 2>(
        job, [&](const Part &part) { by_count<F16Numbers, V::k_together / 2>(job, part); });
  }

  /// For a V that has V::add_pairs.
  static void bf16(const PanelJob &job) {
    each_part<V::k_together / 2>(
        job, [&](const Part &part) { by_count<Bf16Numbers, V::k_together / 2>(job, part); });
  }

 private:
  using Floats = typename V::Floats;

  /// A tile for some tokens of the panel.
  struct Part {
    const uint8_t *tile;
    int64_t n_rows;  // that exist, at least 1
    int64_t first_token;
    int64_t n_tokens;
    float *y;  // of the tile's first row, in row 0
  };

  template <int64_t n_together, class Run>
  static void each_part(const PanelJob &job, const Run &run) {
    for (int64_t row = 0; row < job.n_out; row += k_product_tile) {
      const int64_t n_rows = job.n_out - row;
      for (int64_t token = 0; token < job.n_tokens; token += n_together) {
        const int64_t n_tokens = job.n_tokens - token;
        run(Part{job.tiles + row / k_product_tile * job.tile_stride,
                 n_rows < k_product_tile ? n_rows : k_product_tile, token,
                 n_tokens < n_together ? n_tokens : n_together, job.y + row});
      }
    }
  }

  /// Few tokens leave room for the sums of all halves, and the tile is read once.
  template <class Kernel, int n>
  static void by_count(const PanelJob &job, const Part &part) {
    if (part.n_tokens == n) {
      constexpr int n_halves = n * V::k_halves <= V::k_together ? V::k_halves : 1;
      for (int half = 0; half < V::k_halves; half += n_halves)
        compute<Kernel, n, n_halves>(job, part, half);
    } else if constexpr (n > 1) {
      by_count<Kernel, n - 1>(job, part);
    }
  }

  template <class Kernel, int n, int n_halves>
  static void compute(const PanelJob &job, const Part &part, int half) {
    Floats sums[n_halves][n];
    for (auto &of_half : sums) {
      for (auto &sum : of_half) sum = V::zero();
    }
    Kernel::add(job, part, half, sums);
    for (int h = 0; h < n_halves; ++h) {
      const int64_t first_row = (half + h) * V::k_rows;
      const int64_t n_rows = part.n_rows - first_row;
      if (n_rows <= 0) return;
      for (int t = 0; t < n; ++t) {
        const int64_t token = part.first_token + t;
        const int64_t row = job.rows == nullptr ? token : job.rows[token];
        V::store(part.y + row * job.y_stride + first_row, sums[h][t],
                 n_rows < V::k_rows ? n_rows : V::k_rows);
      }
    }
  }

  static const float *floats(const uint8_t *bytes) {
    return reinterpret_cast<const float *>(bytes);
  }
  static const int32_t *ints(const uint8_t *bytes) {
    return reinterpret_cast<const int32_t *>(bytes);
  }

  template <class F>
  struct Quantised {
    // Constants, so that no function of a header that others share is compiled here.
    static constexpr TileLayout k_layout = F::k_layout;
    static constexpr int64_t k_input_bytes = panel_block_bytes(k_layout.input);

    template <int n_halves, int n>
    static void add(const PanelJob &job, const Part &part, int half, Floats (&sums)[n_halves][n]) {
      const int64_t a_bytes = job.n_tokens * k_input_bytes;
      const uint8_t *w = part.tile;
      const uint8_t *a = job.panel;
      for (int64_t block = 0; block < job.n_blocks; block += k_layout.n_group) {
        const uint8_t *head = w;
        const int64_t left = job.n_blocks - block;
        const int64_t n_group = left < k_layout.n_group ? left : k_layout.n_group;
        w += k_layout.head_bytes;
        for (int64_t j = 0; j < n_group; ++j, w += k_layout.block_bytes, a += a_bytes) {
#pragma GCC unroll 2
          for (int h = 0; h < n_halves; ++h)
            add_block(job, part, half + h, {head, j, w, a}, sums[h]);
        }
      }
    }

    /// A block, number j of its group, and what it is multiplied with.
    struct Block {
      const uint8_t *head;
      int64_t j;
      const uint8_t *w;
      const uint8_t *a;
    };

    template <int n>
    static void add_block(const PanelJob &job, const Part &part, int half, const Block &block,
                          Floats (&sums)[n]) {
      constexpr int n_vectors = 8 / F::k_scales;
      const int64_t n_panel = job.n_tokens;
      const uint8_t *codes_a = block.a + part.first_token * k_product_block;
      const uint8_t *beside = block.a + n_panel * k_product_block + part.first_token * 4;
      const float *scales_a = floats(beside);
      BlockCodes<V> codes;
      F::template unpack<V>(block.w, half, codes);
#pragma GCC unroll 2
      for (int i = 0; i < F::k_scales; ++i) {
        const Floats scale = F::template scale<V>(block.head, block.j, i, half);
        // Of K-quants a float sum lies in front of the two integer ones.
        const int32_t *starts = ints(beside + n_panel * 4 * (F::k_scales == 2 ? 2 + i : 1));
#pragma GCC unroll 16
        for (int t = 0; t < n; ++t) {
          const auto start = F::k_biased ? V::set1_int(starts[t]) : V::zero_ints();
          const auto dot = V::template dot<F::k_max_code, n_vectors>(
              codes + int64_t{n_vectors} * i,
              codes_a + t * k_product_block + int64_t{4} * n_vectors * i, start);
          sums[t] = V::fmadd(V::to_floats(dot), V::mul(scale, V::set1(scales_a[t])), sums[t]);
        }
      }
      if constexpr (F::k_has_min) {
        const Floats min = F::template min<V>(block.head, block.j, half);
        const float *sums_a = floats(beside + n_panel * 4);
#pragma GCC unroll 16
        for (int t = 0; t < n; ++t) sums[t] = V::fmadd(min, V::set1(sums_a[t]), sums[t]);
      }
    }
  };

  // Of float formats every other vector of a block goes into a second sum: additions of one sum
  // wait for each other, and a lone token has no other work.

  /// F16: vector k of a block holds input k of the rows.
  struct F16Numbers {
    template <int n_halves, int n>
    static void add(const PanelJob &job, const Part &part, int half, Floats (&sums)[n_halves][n]) {
      const uint8_t *w = part.tile;
      const float *a = floats(job.panel) + part.first_token * k_product_block;
      Floats odd[n_halves][n];
      for (auto &of_half : odd) {
        for (auto &sum : of_half) sum = V::zero();
      }
      for (int64_t block = 0; block < job.n_blocks; ++block) {
        for (int64_t k = 0; k < k_product_block; k += 2) {
#pragma GCC unroll 2
          for (int h = 0; h < n_halves; ++h) {
            const Floats left = V::load_f16(w + 32 * k, half + h);
            const Floats right = V::load_f16(w + 32 * k + 32, half + h);
#pragma GCC unroll 8
            for (int t = 0; t < n; ++t) {
              sums[h][t] = V::fmadd(left, V::set1(a[t * k_product_block + k]), sums[h][t]);
              odd[h][t] = V::fmadd(right, V::set1(a[t * k_product_block + k + 1]), odd[h][t]);
            }
          }
        }
        w += 32 * k_product_block;
        a += job.n_tokens * k_product_block;
      }
      for (int h = 0; h < n_halves; ++h) {
        for (int t = 0; t < n; ++t) sums[h][t] = V::add(sums[h][t], odd[h][t]);
      }
    }
  };

  /// BF16: vector k of a block holds inputs 2k and 2k + 1 of the rows.
  struct Bf16Numbers {
    static constexpr int64_t k_pairs = k_product_block / 2;

    template <int n_halves, int n>
    static void add(const PanelJob &job, const Part &part, int half, Floats (&sums)[n_halves][n]) {
      const uint8_t *w = part.tile;
      const int32_t *a = ints(job.panel) + part.first_token * k_pairs;
      Floats odd[n_halves][n];
      for (auto &of_half : odd) {
        for (auto &sum : of_half) sum = V::zero();
      }
      for (int64_t block = 0; block < job.n_blocks; ++block) {
        for (int64_t k = 0; k < k_pairs; k += 2) {
#pragma GCC unroll 2
          for (int h = 0; h < n_halves; ++h) {
            const auto left = V::load_codes(w + 64 * k, half + h);
            const auto right = V::load_codes(w + 64 * k + 64, half + h);
#pragma GCC unroll 8
            for (int t = 0; t < n; ++t) {
              sums[h][t] = V::add_pairs(sums[h][t], left, a[t * k_pairs + k]);
              odd[h][t] = V::add_pairs(odd[h][t], right, a[t * k_pairs + k + 1]);
            }
          }
        }
        w += 64 * k_pairs;
        a += job.n_tokens * k_pairs;
      }
      for (int h = 0; h < n_halves; ++h) {
        for (int t = 0; t < n; ++t) sums[h][t] = V::add(sums[h][t], odd[h][t]);
      }
    }
  };
};

/// Of all formats but BF16, which needs an instruction for itself to be faster than ggml's product.
template <class V>
constexpr ProductKernels products_of() {
  using Loops = ProductLoops<V>;
  return {.q4_0 = Loops::template quantised<Q4_0>,
          .q4_1 = Loops::template quantised<Q4_1>,
          .q5_0 = Loops::template quantised<Q5_0>,
          .q5_1 = Loops::template quantised<Q5_1>,
          .q8_0 = Loops::template quantised<Q8_0>,
          .q4_k = Loops::template quantised<Q4_K>,
          .q5_k = Loops::template quantised<Q5_K>,
          .q6_k = Loops::template quantised<Q6_K>,
          .f16 = Loops::f16};
}

}  // namespace patchbay
