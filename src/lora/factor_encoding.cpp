#include "lora/factor_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "lora/factor_ops.h"

namespace patchbay {
namespace {

/// What a refusal names.
struct Place {
  const std::string &path;
  const std::string &item;
};

[[noreturn]] void refuse(const Place &place, std::string problem, std::string hint = {}) {
  throw LoadError({.path = place.path,
                   .item = place.item,
                   .problem = std::move(problem),
                   .hint = std::move(hint)});
}

[[noreturn]] void refuse_overflow(const Place &place, double value, ggml_type type) {
  refuse(place,
         fmt::format("has the number {:.6g}, which overflows {}", value, ggml_type_name(type)),
         type == GGML_TYPE_F32 ? "" : "--type f32 or bf16 has room for it");
}

/// The factor's numbers times the multiplier, rounded once.
std::vector<float> multiplied(const Place &place, const Factor &factor, double multiplier) {
  auto values = numbers_of(factor);
  if (multiplier == 1) return values;
  for (float &value : values) {
    const double product = static_cast<double>(value) * multiplier;
    if (std::abs(product) > std::numeric_limits<float>::max()) {
      refuse_overflow(place, product, GGML_TYPE_F32);
    }
    value = static_cast<float>(product);
  }
  return values;
}

/// Numbers of `factor` that are 0 in `became_zero` and were not before, when that is not what the
/// multiplier asks for.
template <class BecameZero>
uint64_t count_vanished(const Place &place, const Factor &factor, double multiplier, ggml_type type,
                        const BecameZero &became_zero) {
  if (multiplier == 0) return 0;
  const auto before = numbers_of(factor);
  uint64_t n_before = 0;
  uint64_t n_vanished = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == 0) continue;
    n_before++;
    if (became_zero(i)) n_vanished++;
  }
  if (n_before > 0 && n_vanished == n_before) {
    refuse(place,
           fmt::format("would vanish: all its numbers are too small for {}", ggml_type_name(type)),
           "--type f32 or bf16 has room for them");
  }
  return n_vanished;
}

template <class Value>
EncodedFactor owning(ggml_type type, std::vector<Value> values) {
  auto owner = std::make_shared<const std::vector<Value>>(std::move(values));
  return {.type = type, .data = std::as_bytes(std::span(*owner)), .owner = std::move(owner)};
}

EncodedFactor to_16_bits(const Place &place, const std::vector<float> &values, ggml_type type) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_f16 = type == GGML_TYPE_F16;
    bits[i] = is_f16 ? ggml_fp32_to_fp16(values[i]) : ggml_fp32_to_bf16(values[i]).bits;
    const uint16_t exponent = is_f16 ? 0x7c00 : 0x7f80;
    if ((bits[i] & exponent) == exponent) refuse_overflow(place, values[i], type);
  }
  return owning(type, std::move(bits));
}

constexpr int64_t k_block = 32;         // numbers in a block of Q8_0
constexpr float k_most_of_block = 127;  // which its largest number becomes

/// Whether the scales of all blocks survive being stored as F16: a rounding of the scale beyond
/// that of the numbers themselves would go unnoticed.
bool scales_fit_q8_0(const Place &place, const std::vector<float> &values) {
  for (size_t first = 0; first < values.size(); first += k_block) {
    float largest = 0;
    for (size_t i = first; i < first + k_block; ++i) {
      largest = std::max(largest, std::abs(values[i]));
    }
    const float scale = largest / k_most_of_block;
    const float stored = ggml_fp16_to_fp32(ggml_fp32_to_fp16(scale));
    if (!std::isfinite(stored)) refuse_overflow(place, largest, GGML_TYPE_Q8_0);
    if (std::abs(stored - scale) > scale / (2 * k_most_of_block)) return false;
  }
  return true;
}

EncodedFactor to_q8_0(const std::vector<float> &values, int64_t n_row) {
  const auto n_rows = static_cast<int64_t>(values.size()) / n_row;
  std::vector<std::byte> bytes(ggml_row_size(GGML_TYPE_Q8_0, n_row) * static_cast<size_t>(n_rows));
  ggml_quantize_chunk(GGML_TYPE_Q8_0, values.data(), bytes.data(), 0, n_rows, n_row, nullptr);
  return owning(GGML_TYPE_Q8_0, std::move(bytes));
}

/// Empty: Q8_0 will do.
std::string why_not_q8_0(const Place &place, const Factor &factor,
                         const std::vector<float> &values) {
  if (factor.ne[0] % k_block != 0) return "rows are no multiple of 32 numbers";
  if (!scales_fit_q8_0(place, values)) return "numbers are too small for its blocks";
  return {};
}

EncodedFactor encode_values(const Place &place, const Factor &factor, std::vector<float> values,
                            ggml_type type) {
  if (type == GGML_TYPE_F32) return owning(type, std::move(values));
  if (type != GGML_TYPE_Q8_0) return to_16_bits(place, values, type);
  auto reason = why_not_q8_0(place, factor, values);
  if (reason.empty()) return to_q8_0(values, factor.ne[0]);
  auto encoded = to_16_bits(place, values, GGML_TYPE_F16);
  encoded.why_not_q8_0 = std::move(reason);
  return encoded;
}

/// In Q8_0 small numbers beside large ones are 0 by the nature of the type; nothing vanishes that
/// was not negligible, since scales_fit_q8_0().
bool counts_vanished(ggml_type type) { return type != GGML_TYPE_Q8_0; }

bool is_zero_at(const EncodedFactor &encoded, size_t i) {
  if (encoded.type == GGML_TYPE_F32) {
    float value = 0;
    std::memcpy(&value, encoded.data.data() + i * sizeof value, sizeof value);
    return value == 0;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, encoded.data.data() + i * sizeof bits, sizeof bits);
  return (bits & 0x7fff) == 0;
}

}  // namespace

EncodedFactor encode_factor(const std::string &path, const std::string &item, const Factor &factor,
                            double multiplier, std::optional<ggml_type> type) {
  const Place place{path, item};
  const ggml_type own = multiplier == 1 ? factor.type : GGML_TYPE_F32;
  const ggml_type wanted = type.value_or(own);
  if (multiplier == 1 && wanted == factor.type) {
    return {.type = factor.type, .data = factor.data, .owner = factor.owner};
  }
  auto encoded = encode_values(place, factor, multiplied(place, factor, multiplier), wanted);
  if (counts_vanished(encoded.type)) {
    encoded.n_vanished = count_vanished(place, factor, multiplier, encoded.type,
                                        [&](size_t i) { return is_zero_at(encoded, i); });
  }
  return encoded;
}

}  // namespace patchbay
