#pragma once

#include <cstdint>

// How weights and their inputs lie in memory for our own products. Plain declarations only, for the
// files with instruction flags include this.
//
// A weight is cut into tiles of 16 rows, each row one lane of a vector. A tile lies in the order in
// which a product reads it, without a gap: for each group of blocks their scales, then for each
// block of 32 inputs its codes. A vector of codes holds 4 neighbouring inputs of each of the 16
// rows. Inputs are rounded as ggml rounds them and laid in panels of up to 16 tokens; a panel holds
// for each block the codes of its tokens, then their scales and sums.

namespace patchbay {

/// Types of weights that have a product here; ggml's names.
enum class WeightFormat : uint8_t { q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, f16, bf16 };
constexpr WeightFormat k_weight_formats[] = {
    WeightFormat::q4_0, WeightFormat::q4_1, WeightFormat::q5_0, WeightFormat::q5_1,
    WeightFormat::q8_0, WeightFormat::q4_k, WeightFormat::q5_k, WeightFormat::q6_k,
    WeightFormat::f16,  WeightFormat::bf16};

/// How an input is rounded and what lies beside its codes. Weights of one form share an input.
enum class InputForm : uint8_t {
  q8_0_bias8,    ///< ggml's Q8_0; of each block also -8 * (sum of its codes), an integer
  q8_0_bias16,   ///< the same with -16
  q8_0_bias128,  ///< the same with -128
  q8_1,          ///< ggml's Q8_1 with its sums
  q8_k,          ///< ggml's Q8_K; of each block scale * sum, of each half of it -32 * sum
  f16,           ///< rounded to F16, kept as F32
  bf16,          ///< rounded to BF16, kept as such
};

constexpr int64_t k_n_input_forms = static_cast<int64_t>(InputForm::bf16) + 1;

constexpr int64_t k_product_tile = 16;    ///< rows of a weight
constexpr int64_t k_product_panel = 16;   ///< tokens, at most
constexpr int64_t k_product_block = 32;   ///< inputs
constexpr int64_t k_product_super = 256;  ///< inputs of a group of blocks of K-quants

/// What one format's tiles are made of.
struct TileLayout {
  InputForm input;
  int64_t n_group;      ///< blocks that share a head
  int64_t head_bytes;   ///< of a group: scales, in front of its blocks
  int64_t block_bytes;  ///< of a block of 32 inputs
};

constexpr TileLayout layout_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::q4_0:  // two blocks have one head, so that all vectors are aligned
      return {InputForm::q8_0_bias8, 2, 64, 256};
    case WeightFormat::q4_1:
      return {InputForm::q8_1, 1, 64, 256};
    case WeightFormat::q5_0:
      return {InputForm::q8_0_bias16, 2, 64, 320};
    case WeightFormat::q5_1:
      return {InputForm::q8_1, 1, 64, 320};
    case WeightFormat::q8_0:
      return {InputForm::q8_0_bias128, 2, 64, 512};
    case WeightFormat::q4_k:
      return {InputForm::q8_k, 8, 320, 256};
    case WeightFormat::q5_k:
      return {InputForm::q8_k, 8, 320, 320};
    case WeightFormat::q6_k:
      return {InputForm::q8_k, 8, 320, 384};
    case WeightFormat::f16:
      return {InputForm::f16, 1, 0, 1024};
    case WeightFormat::bf16:
      return {InputForm::bf16, 1, 0, 1024};
  }
  return {};
}

/// Blocks of a row of `n_in` numbers.
constexpr int64_t n_product_blocks(int64_t n_in) {
  return (n_in + k_product_block - 1) / k_product_block;
}

/// Tiles of a weight of `n_out` rows.
constexpr int64_t n_product_tiles(int64_t n_out) {
  return (n_out + k_product_tile - 1) / k_product_tile;
}

constexpr int64_t tile_bytes(WeightFormat format, int64_t n_in) {
  const TileLayout layout = layout_of(format);
  const int64_t n_blocks = n_product_blocks(n_in);
  const int64_t n_groups = (n_blocks + layout.n_group - 1) / layout.n_group;
  return n_groups * layout.head_bytes + n_blocks * layout.block_bytes;
}

/// Bytes of one block of one token in a panel.
constexpr int64_t panel_block_bytes(InputForm form) {
  switch (form) {
    case InputForm::q8_0_bias8:
    case InputForm::q8_0_bias16:
    case InputForm::q8_0_bias128:
    case InputForm::q8_1:
      return 32 + 2 * 4;
    case InputForm::q8_k:
      return 32 + 4 * 4;
    case InputForm::f16:
      return k_product_block * 4;
    case InputForm::bf16:
      return k_product_block * 2;
  }
  return 0;
}

/// Bytes of one token in panels; those of n tokens take n times as many.
constexpr int64_t panel_token_bytes(InputForm form, int64_t n_in) {
  return n_product_blocks(n_in) * panel_block_bytes(form);
}

}  // namespace patchbay
