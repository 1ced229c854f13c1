#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "kernels/lora_jobs.h"

namespace patchbay {

/// A finite IEEE 754 half as float.
inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 31U;
  const uint32_t fraction = half & 0x3FFU;
  constexpr float k_smallest = 0x1p-24F;
  // Below the normal range a half counts multiples of its smallest number.
  const uint32_t magnitude =
      exponent == 0 ? std::bit_cast<uint32_t>(static_cast<float>(fraction) * k_smallest)
                    : ((exponent + 112U) << 23U) | (fraction << 13U);
  return std::bit_cast<float>(sign | magnitude);
}

/// Number `i` of a factor that may lie unaligned.
template <FactorType type>
float number_at(const void *factor, int64_t i) {
  if constexpr (type == FactorType::f32) {
    float value = 0;
    std::memcpy(&value, static_cast<const char *>(factor) + i * 4, sizeof value);
    return value;
  } else {
    uint16_t half = 0;
    std::memcpy(&half, static_cast<const char *>(factor) + i * 2, sizeof half);
    return type == FactorType::f16 ? half_to_float(half)
                                   : std::bit_cast<float>(static_cast<uint32_t>(half) << 16U);
  }
}

}  // namespace patchbay
