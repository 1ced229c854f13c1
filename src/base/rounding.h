#pragma once

namespace patchbay {

/// How many parts of size `to` cover `value`. `value` not below 0; `to` above 0.
template <class T>
[[nodiscard]] constexpr T ceil_div(T value, T to) {
  return (value + to - 1) / to;
}

/// The smallest multiple of `to` that is not below `value`.
template <class T>
[[nodiscard]] constexpr T round_up(T value, T to) {
  return ceil_div(value, to) * to;
}

}  // namespace patchbay
