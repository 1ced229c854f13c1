#pragma once

#include <immintrin.h>

#include <cstdint>

namespace patchbay {

/// The vectors of 512 bits for ProductLoops: a tile's 16 rows at once. `Derived`, a type of the
/// including file alone, adds what multiplies codes or pairs.
template <class Derived>
struct Vectors512 {
  using Codes = __m512i;
  using Ints = __m512i;
  using Floats = __m512;
  static constexpr int64_t k_rows = 16;
  static constexpr int k_halves = 1;
  static constexpr int64_t k_together = 16;

  static Codes load_codes(const uint8_t *bytes, int /*half*/) { return _mm512_loadu_si512(bytes); }
  static Codes low_nibbles(Codes both) { return _mm512_and_si512(both, _mm512_set1_epi8(15)); }
  static Codes high_nibbles(Codes both) {
    return _mm512_and_si512(_mm512_srli_epi16(both, 4), _mm512_set1_epi8(15));
  }
  template <int n>
  static Codes shift_left(Codes bits) {
    return _mm512_slli_epi16(bits, n);
  }
  template <int n>
  static Codes shift_right(Codes bits) {
    return _mm512_srli_epi16(bits, n);
  }
  /// codes | (bits & mask), byte by byte.
  template <int mask>
  static Codes with_bits(Codes codes, Codes bits) {
    constexpr int k_a_or_b_and_c = 0xF8;
    return _mm512_ternarylogic_epi32(codes, bits, _mm512_set1_epi8(mask), k_a_or_b_and_c);
  }

  static Ints zero_ints() { return _mm512_setzero_si512(); }
  static Ints set1_int(int32_t value) { return _mm512_set1_epi32(value); }
  static Floats zero() { return _mm512_setzero_ps(); }
  static Floats set1(float value) { return _mm512_set1_ps(value); }
  static Floats to_floats(Ints values) { return _mm512_cvtepi32_ps(values); }
  static Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
  static Floats fmadd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats load_f16(const uint8_t *bytes, int /*half*/) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(bytes)));
  }
  static Floats load_u8(const uint8_t *bytes, int /*half*/) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes))));
  }
  static Floats load_i8(const uint8_t *bytes, int /*half*/) {
    return _mm512_cvtepi32_ps(
        _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes))));
  }
  static void store(float *y, Floats values, int64_t n_rows) {
    if (n_rows == k_rows) {
      _mm512_storeu_ps(y, values);
    } else {
      _mm512_mask_storeu_ps(y, static_cast<__mmask16>((1U << static_cast<uint32_t>(n_rows)) - 1U),
                            values);
    }
  }

 private:
  friend Derived;
  Vectors512() = default;
};

}  // namespace patchbay
