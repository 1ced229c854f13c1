#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "grammar/decimal.h"
#include "grammar/grammar_rules.h"

namespace patchbay {

/// Which numbers are meant.
struct NumberBounds {
  std::optional<Decimal> min{};
  std::optional<Decimal> max{};
  bool excludes_min = false;
  bool excludes_max = false;
  uint64_t multiple_of = 1;  ///< of integers only
};

/// JSON integers within bounds, of at most 18 digits, so that they fit 64 bits. invalid_argument: a
/// bound beyond that on the wrong side, or a multiple that is too large.
[[nodiscard]] Expected<grammar::Expr> json_integers(const NumberBounds &bounds);

/// JSON numbers within bounds. Without any: at most 18 digits before and behind the point, and an
/// exponent of at most two. With one: no exponent and at most 15 digits, since between these no two
/// are the same double, and comparing doubles comes to the same as comparing decimals.
/// invalid_argument: a bound of more than 15 digits.
[[nodiscard]] Expected<grammar::Expr> json_numbers(const NumberBounds &bounds);

}  // namespace patchbay
