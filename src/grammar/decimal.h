#pragma once

#include <compare>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace patchbay {

/// A decimal number, exactly, for comparing and for its digits. Zero has no sign.
struct Decimal {
  bool is_negative = false;
  std::string integer = "0";  ///< digits without leading zeros, "0" for none
  std::string fraction{};     ///< digits without trailing zeros

  [[nodiscard]] size_t n_digits() const { return integer.size() + fraction.size(); }
  [[nodiscard]] bool is_integer() const { return fraction.empty(); }
  [[nodiscard]] bool is_zero() const { return integer == "0" && fraction.empty(); }
  [[nodiscard]] Decimal negated() const;
  /// None when it is no integer or does not fit.
  [[nodiscard]] std::optional<int64_t> as_int64() const;

  bool operator==(const Decimal &) const = default;
};

[[nodiscard]] std::strong_ordering operator<=>(const Decimal &one, const Decimal &other);

[[nodiscard]] Decimal to_decimal(int64_t value);
/// A JSON number as its shortest decimal spelling says it; none when that has more than 40 digits.
[[nodiscard]] std::optional<Decimal> to_decimal(const nlohmann::ordered_json &number);

}  // namespace patchbay
