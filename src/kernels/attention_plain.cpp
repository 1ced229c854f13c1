#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/attention_tile.h"

namespace patchbay {
namespace {

/// IEEE 754 binary16. Exact.
float widened(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero or subnormal: a multiple of 2^-24
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign == 0 ? magnitude : -magnitude;
  }
  const uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

void widen_f16(const CacheRows &rows) {
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    for (size_t j = 0; j < rows.n; ++j) {
      uint16_t half = 0;
      std::memcpy(&half, src + 2 * j, sizeof(half));
      dst[j] = widened(half);
    }
  }
}

void widen_q8_0(const CacheRows &rows) {
  constexpr size_t k_block = 32;
  constexpr size_t k_block_bytes = 2 + k_block;
  for (size_t i = 0; i < rows.n_rows; ++i) {
    const char *src = static_cast<const char *>(rows.src) + i * rows.src_stride_bytes;
    float *dst = rows.dst + i * rows.dst_stride;
    for (size_t j = 0; j < rows.n; j += k_block, src += k_block_bytes) {
      uint16_t half = 0;
      std::memcpy(&half, src, sizeof(half));
      const float scale = widened(half);
      for (size_t l = 0; l < k_block; ++l)
        dst[j + l] = scale * static_cast<float>(static_cast<signed char>(src[2 + l]));
    }
  }
}

float number(float value) { return value; }
float number(uint16_t value) { return widened(value); }

template <class Number>
const Number *row(const void *rows, const AttentionTile &tile, size_t key) {
  return reinterpret_cast<const Number *>(static_cast<const char *>(rows) +
                                          key * tile.stride_bytes);
}

template <class Number>
float dot(const float *q, const Number *k, size_t n) {
  constexpr size_t k_lanes = 8;  // sums that a compiler may keep in one register
  float sums[k_lanes] = {};
  for (size_t j = 0; j < n; j += k_lanes) {
    for (size_t l = 0; l < k_lanes; ++l) sums[l] += q[j + l] * number(k[j + l]);
  }
  for (size_t width = k_lanes / 2; width > 0; width /= 2) {
    for (size_t l = 0; l < width; ++l) sums[l] += sums[l + width];
  }
  return sums[0];
}

template <class Number>
void weigh(const AttentionTile &tile, size_t i) {
  const auto [first, end] = tile.ranges[i];
  float *weights = tile.weights + i * k_tile_keys;
  float largest = tile.max[i];
  for (uint32_t key = first; key < end; ++key) {
    weights[key] = dot(tile.q + i * tile.n_padded, row<Number>(tile.k, tile, key), tile.n_padded);
    largest = std::max(largest, weights[key]);
  }
  float sum = 0;
  for (uint32_t key = first; key < end; ++key) {
    weights[key] = std::exp(weights[key] - largest);
    sum += weights[key];
  }
  tile.factors[i] = std::exp(tile.max[i] - largest);
  tile.max[i] = largest;
  tile.sum[i] = tile.sum[i] * tile.factors[i] + sum;
}

template <class Number>
void mix(const AttentionTile &tile, size_t i) {
  const auto [first, end] = tile.ranges[i];
  float *acc = tile.acc + i * tile.n_padded;
  for (size_t j = 0; j < tile.n_padded; ++j) acc[j] *= tile.factors[i];
  for (uint32_t key = first; key < end; ++key) {
    const float weight = tile.weights[i * k_tile_keys + key];
    const Number *v = row<Number>(tile.v, tile, key);
    for (size_t j = 0; j < tile.n_padded; ++j) acc[j] += weight * number(v[j]);
  }
}

template <class Number>
void attend(const AttentionTile &tile) {
  for (size_t i = 0; i < tile.n_queries; ++i) {
    if (tile.ranges[i].first == tile.ranges[i].end) continue;
    weigh<Number>(tile, i);
    mix<Number>(tile, i);
  }
}

}  // namespace

extern constexpr AttentionKernels k_attention_plain{.attend = attend<float>,
                                                    .attend_f16 = attend<uint16_t>,
                                                    .widen_f16 = widen_f16,
                                                    .widen_q8_0 = widen_q8_0};

}  // namespace patchbay
