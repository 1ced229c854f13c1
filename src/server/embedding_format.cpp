#include "server/embedding_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>

namespace patchbay {
namespace {

double size_of(std::span<const float> vector, int p) {
  if (p < 0) return 1;
  double sum = 0;
  for (const float value : vector) {
    const double size = std::abs(double{value});
    sum = p == 0 ? std::max(sum, size) : sum + std::pow(size, p);
  }
  constexpr double k_int16 = 32760;
  return p == 0 ? sum / k_int16 : std::pow(sum, 1.0 / p);
}

/// The double that prints as the float does.
double short_double(float value) {
  const std::string text = fmt::format("{}", value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

void normalise(std::span<float> vector, int p) {
  const double size = size_of(vector, p);
  if (size == 0) return;
  for (float &value : vector) value = static_cast<float>(value / size);
}

Json number_array(std::span<const float> vector) {
  Json array = Json::array();
  for (const float value : vector) array.push_back(short_double(value));
  return array;
}

std::string base64_of(std::span<const float> vector) {
  constexpr char k_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<unsigned char> bytes;
  for (const float value : vector) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (unsigned shift = 0; shift < 32; shift += 8)
      bytes.push_back(static_cast<unsigned char>(bits >> shift));
  }
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8U | (k < n ? bytes[i + k] : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= n ? k_digits[group >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

}  // namespace patchbay
