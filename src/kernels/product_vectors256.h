#pragma once

#include <immintrin.h>

#include <cstdint>

namespace patchbay {

/// The vectors of 256 bits for ProductLoops: a tile's rows in two halves. `Derived`, a type of the
/// including file alone, adds what multiplies codes.
template <class Derived>
struct Vectors256 {
  using Codes = __m256i;
  using Ints = __m256i;
  using Floats = __m256;
  static constexpr int64_t k_rows = 8;
  static constexpr int k_halves = 2;
  static constexpr int64_t k_together = 4;

  static Codes load_codes(const uint8_t *bytes, int half) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(bytes + int64_t{32} * half));
  }
  static Codes low_nibbles(Codes both) { return _mm256_and_si256(both, _mm256_set1_epi8(15)); }
  static Codes high_nibbles(Codes both) {
    return _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
  }
  template <int n>
  static Codes shift_left(Codes bits) {
    return _mm256_slli_epi16(bits, n);
  }
  template <int n>
  static Codes shift_right(Codes bits) {
    return _mm256_srli_epi16(bits, n);
  }
  /// codes | (bits & mask), byte by byte.
  template <int mask>
  static Codes with_bits(Codes codes, Codes bits) {
    return _mm256_or_si256(codes, _mm256_and_si256(bits, _mm256_set1_epi8(mask)));
  }

  static Ints zero_ints() { return _mm256_setzero_si256(); }
  static Ints set1_int(int32_t value) { return _mm256_set1_epi32(value); }
  static Floats zero() { return _mm256_setzero_ps(); }
  static Floats set1(float value) { return _mm256_set1_ps(value); }
  static Floats to_floats(Ints values) { return _mm256_cvtepi32_ps(values); }
  static Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
  static Floats mul(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
  static Floats fmadd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats load_f16(const uint8_t *bytes, int half) {
    return _mm256_cvtph_ps(
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes + int64_t{16} * half)));
  }
  static Floats load_u8(const uint8_t *bytes, int half) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes + int64_t{8} * half))));
  }
  static Floats load_i8(const uint8_t *bytes, int half) {
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(
        _mm_loadl_epi64(reinterpret_cast<const __m128i *>(bytes + int64_t{8} * half))));
  }
  static void store(float *y, Floats values, int64_t n_rows) {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n_rows)), lanes);
    if (n_rows == k_rows) {
      _mm256_storeu_ps(y, values);
    } else {
      _mm256_maskstore_ps(y, mask, values);
    }
  }

 private:
  friend Derived;
  Vectors256() = default;
};

}  // namespace patchbay
