#pragma once

#include <cstdint>

// The two halves of a low-rank step, y += B (scale A x), as plain jobs; plain declarations only,
// for the files with instruction flags include this. A result never depends on how work is cut into
// jobs: every number is summed in an order of its own, the same whatever lies beside it.

namespace patchbay {

/// How the numbers of a low-rank factor are stored.
enum class FactorType { f32, f16, bf16 };

/// low[t][r] = scale * (row r of A) . (row t of x). Sums in F32.
struct ShrinkJob {
  FactorType type = FactorType::f32;
  const void *a = nullptr;  ///< [n_rank][n_in], may be unaligned
  int64_t n_in = 0;
  int64_t n_rank = 0;
  const float *x = nullptr;  ///< [n_tokens][n_in], rows x_stride apart
  int64_t x_stride = 0;
  int64_t n_tokens = 0;
  float scale = 1;
  float *low = nullptr;  ///< [n_tokens][n_rank], rows low_stride apart
  int64_t low_stride = 0;
};

/// Outputs that lie together in B as it is kept for products.
constexpr int64_t k_lora_tile = 32;

/// y[t][o] += sum over r of low[t][r] * B[r][o], r ascending, each step one rounding of an F32
/// fused (or, in plain C++, separate) multiply and add.
struct ExpandJob {
  FactorType type = FactorType::f32;
  const void *b = nullptr;  ///< [n_tiles][n_rank][k_lora_tile]
  int64_t n_rank = 0;
  int64_t n_out = 0;  ///< at most n_tiles * k_lora_tile; what pads the last tile is not used
  const float *low = nullptr;  ///< [n_tokens][n_rank], rows low_stride apart
  int64_t low_stride = 0;
  int64_t n_tokens = 0;
  float *y = nullptr;  ///< [n_tokens][n_out], rows y_stride apart
  int64_t y_stride = 0;
};

/// An instruction set's kernels, by the type of the factor.
struct ShrinkKernels {
  void (*f32)(const ShrinkJob &job);
  void (*f16)(const ShrinkJob &job);
  void (*bf16)(const ShrinkJob &job);
};

/// The same. REQUIRES: n_out is a multiple of k_lora_tile.
struct ExpandKernels {
  void (*f32)(const ExpandJob &job);
  void (*f16)(const ExpandJob &job);
  void (*bf16)(const ExpandJob &job);
};

extern const ShrinkKernels k_shrink_plain;
extern const ShrinkKernels k_shrink_avx2;
extern const ShrinkKernels k_shrink_avx512;

extern const ExpandKernels k_expand_plain;
extern const ExpandKernels k_expand_avx2;
extern const ExpandKernels k_expand_avx512;

}  // namespace patchbay
