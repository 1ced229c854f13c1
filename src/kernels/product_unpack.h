#pragma once

#include "kernels/product_format.h"

// How a block of each quantised format becomes vectors of unsigned codes, a scale and, in some, a
// minimum: value = scale * (code - bias) + minimum. Written once for the vectors `V` of an
// instruction set, see ProductLoops. `half` says which of the V::k_halves parts of a tile's rows.

namespace patchbay {

/// Codes of 32 inputs: eight vectors of 4 inputs each.
template <class V>
using BlockCodes = typename V::Codes[8];

/// Vector i has the low nibbles of byte vector i, vector i + n those of its high nibbles.
template <class V, int n>
void unpack_nibbles(const uint8_t *bytes, int half, typename V::Codes *codes) {
#pragma GCC unroll 4
  for (int i = 0; i < n; ++i) {
    const auto both = V::load_codes(bytes + int64_t{64} * i, half);
    codes[i] = V::low_nibbles(both);
    codes[i + n] = V::high_nibbles(both);
  }
}

/// Bit i of each byte of `bits` is bit 4 of code vector i.
template <class V>
void add_fifth_bits(typename V::Codes bits, BlockCodes<V> &codes) {
  codes[0] = V::template with_bits<0x10>(codes[0], V::template shift_left<4>(bits));
  codes[1] = V::template with_bits<0x10>(codes[1], V::template shift_left<3>(bits));
  codes[2] = V::template with_bits<0x10>(codes[2], V::template shift_left<2>(bits));
  codes[3] = V::template with_bits<0x10>(codes[3], V::template shift_left<1>(bits));
  codes[4] = V::template with_bits<0x10>(codes[4], bits);
  codes[5] = V::template with_bits<0x10>(codes[5], V::template shift_right<1>(bits));
  codes[6] = V::template with_bits<0x10>(codes[6], V::template shift_right<2>(bits));
  codes[7] = V::template with_bits<0x10>(codes[7], V::template shift_right<3>(bits));
}

/// Bits 2i and 2i + 1 of each byte of `bits` are bits 4 and 5 of code vector i of four.
template <class V>
void add_top_bits(typename V::Codes bits, typename V::Codes *codes) {
  codes[0] = V::template with_bits<0x30>(codes[0], V::template shift_left<4>(bits));
  codes[1] = V::template with_bits<0x30>(codes[1], V::template shift_left<2>(bits));
  codes[2] = V::template with_bits<0x30>(codes[2], bits);
  codes[3] = V::template with_bits<0x30>(codes[3], V::template shift_right<2>(bits));
}

struct FourBits {
  static constexpr int k_max_code = 15;
  template <class V>
  static void unpack(const uint8_t *block, int half, BlockCodes<V> &codes) {
    unpack_nibbles<V, 4>(block, half, codes);
  }
};

struct FiveBits {
  static constexpr int k_max_code = 31;
  template <class V>
  static void unpack(const uint8_t *block, int half, BlockCodes<V> &codes) {
    unpack_nibbles<V, 4>(block, half, codes);
    add_fifth_bits<V>(V::load_codes(block + 256, half), codes);
  }
};

struct SixBits {
  static constexpr int k_max_code = 63;
  template <class V>
  static void unpack(const uint8_t *block, int half, BlockCodes<V> &codes) {
    for (int i = 0; i < 2; ++i) {
      const uint8_t *part = block + int64_t{192} * i;
      unpack_nibbles<V, 2>(part, half, codes + 4 * i);
      add_top_bits<V>(V::load_codes(part + 128, half), codes + 4 * i);
    }
  }
};

struct EightBits {
  static constexpr int k_max_code = 255;
  template <class V>
  static void unpack(const uint8_t *block, int half, BlockCodes<V> &codes) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) codes[i] = V::load_codes(block + int64_t{64} * i, half);
  }
};

/// Blocks with an F16 scale each, of which the head of a pair holds 16 after 16.
struct ScaleOfBlock {
  static constexpr int k_scales = 1;  ///< of a block
  static constexpr bool k_biased = true;
  static constexpr bool k_has_min = false;
  template <class V>
  static typename V::Floats scale(const uint8_t *head, int64_t j, int /*i*/, int half) {
    return V::load_f16(head + 32 * j, half);
  }
};

/// Blocks with an F16 scale and an F16 minimum each.
struct ScaleAndMinOfBlock {
  static constexpr int k_scales = 1;
  static constexpr bool k_biased = false;
  static constexpr bool k_has_min = true;
  template <class V>
  static typename V::Floats scale(const uint8_t *head, int64_t /*j*/, int /*i*/, int half) {
    return V::load_f16(head, half);
  }
  template <class V>
  static typename V::Floats min(const uint8_t *head, int64_t /*j*/, int half) {
    return V::load_f16(head + 32, half);
  }
};

/// Eight blocks with 8-bit factors on a common scale and a common negative minimum. The head holds
/// 16 scales, 16 minima, then of each block 16 factors and 16 factors of the minimum.
struct ScalesAndMinsOfSuper {
  static constexpr int k_scales = 1;
  static constexpr bool k_biased = false;
  static constexpr bool k_has_min = true;
  template <class V>
  static typename V::Floats scale(const uint8_t *head, int64_t j, int /*i*/, int half) {
    return V::mul(V::load_f16(head, half), V::load_u8(head + 64 + 32 * j, half));
  }
  template <class V>
  static typename V::Floats min(const uint8_t *head, int64_t j, int half) {
    return V::mul(V::load_f16(head + 32, half), V::load_u8(head + 80 + 32 * j, half));
  }
};

/// Sixteen half blocks with signed 8-bit factors on a common scale. The head holds 16 scales, room
/// for as many, then of each half block 16 factors.
struct ScalesOfSuper {
  static constexpr int k_scales = 2;
  static constexpr bool k_biased = true;
  static constexpr bool k_has_min = false;
  template <class V>
  static typename V::Floats scale(const uint8_t *head, int64_t j, int i, int half) {
    return V::mul(V::load_f16(head, half), V::load_i8(head + 64 + 32 * j + int64_t{16} * i, half));
  }
};

template <WeightFormat format, class Codes_, class Scales_>
struct QuantFormat : Codes_, Scales_ {
  static constexpr TileLayout k_layout = layout_of(format);
};

using Q4_0 = QuantFormat<WeightFormat::q4_0, FourBits, ScaleOfBlock>;
using Q4_1 = QuantFormat<WeightFormat::q4_1, FourBits, ScaleAndMinOfBlock>;
using Q5_0 = QuantFormat<WeightFormat::q5_0, FiveBits, ScaleOfBlock>;
using Q5_1 = QuantFormat<WeightFormat::q5_1, FiveBits, ScaleAndMinOfBlock>;
using Q8_0 = QuantFormat<WeightFormat::q8_0, EightBits, ScaleOfBlock>;
using Q4_K = QuantFormat<WeightFormat::q4_k, FourBits, ScalesAndMinsOfSuper>;
using Q5_K = QuantFormat<WeightFormat::q5_k, FiveBits, ScalesAndMinsOfSuper>;
using Q6_K = QuantFormat<WeightFormat::q6_k, SixBits, ScalesOfSuper>;

}  // namespace patchbay
