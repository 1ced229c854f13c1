#include "grammar/json_number_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

namespace patchbay {
namespace {

using grammar::Expr;

constexpr size_t k_integer_digits = 18;
constexpr size_t k_compared_digits = 15;
// As many remainders are told apart at each digit.
constexpr uint64_t k_most_multiple = 1000;

CharSet digits(uint32_t first, uint32_t last) { return {{'0' + first, '0' + last}}; }

uint32_t digit_at(const std::string &text, size_t i) {
  return i < text.size() ? static_cast<uint32_t>(text[i] - '0') : 0;
}

/// From `min` to `max`, none of them negative.
struct Range {
  Decimal min;
  Decimal max;
  bool excludes_min = false;
  bool excludes_max = false;
};

/// The digits of numbers in a range, read from left to right: along a bound as long as they are its
/// own, then freely.
class Digits {
 public:
  Digits(const Range &range, size_t n_most_digits, bool with_fraction, uint64_t multiple_of)
      : range_(range),
        n_most_digits_(n_most_digits),
        with_fraction_(with_fraction),
        multiple_of_(multiple_of) {}

  Expr make() && {
    network_.n_nodes = 2;
    network_.ends = {k_end};
    for (size_t n = range_.min.integer.size(); n <= range_.max.integer.size(); ++n) {
      const At start{.n_left = n,
                     .on_min = n == range_.min.integer.size(),
                     .on_max = n == range_.max.integer.size()};
      add_edges(0, start, /*is_first=*/n > 1);
    }
    return {std::move(network_)};
  }

 private:
  static constexpr uint32_t k_end = 1;

  struct At {
    size_t n_left = 0;      ///< digits before the point
    size_t n_fraction = 0;  ///< digits behind it so far
    bool in_fraction = false;
    bool on_min = false;  ///< all digits so far are the bound's
    bool on_max = false;
    uint64_t remainder = 0;
    size_t n_integer = 0;  ///< digits before the point in all, once they are read

    auto operator<=>(const At &) const = default;
  };

  [[nodiscard]] uint32_t bound_digit(const Decimal &bound, const At &at) const {
    if (at.in_fraction) return digit_at(bound.fraction, at.n_fraction);
    return digit_at(bound.integer, bound.integer.size() - at.n_left);
  }

  /// The numbers of one length; the first digit of more than one is not 0.
  void add_edges(uint32_t node, const At &at, bool is_first) {
    const uint32_t low = at.on_min ? bound_digit(range_.min, at) : 0;
    const uint32_t high = at.on_max ? bound_digit(range_.max, at) : 9;
    std::map<uint32_t, CharSet> digits_to;
    for (uint32_t digit = std::max(low, is_first ? 1U : 0U); digit <= high; ++digit) {
      At next = at;
      next.on_min = at.on_min && digit == low;
      next.on_max = at.on_max && digit == high;
      if (at.in_fraction) {
        ++next.n_fraction;
      } else {
        --next.n_left;
        next.remainder = (at.remainder * 10 + digit) % multiple_of_;
        if (with_fraction_) next.n_integer = at.n_integer + 1;
      }
      digits_to[node_of(next)].add(digits(digit, digit));
    }
    for (const auto &[to, chars] : digits_to) network_.add(node, to, grammar::chars(chars));
  }

  uint32_t node_of(const At &at) {
    const auto known = node_of_.find(at);
    if (known != node_of_.end()) return known->second;
    const uint32_t node = network_.n_nodes++;
    node_of_[at] = node;
    if (at.n_left > 0) {
      add_edges(node, at, false);
    } else {
      end_or_go_on(node, at);
    }
    return node;
  }

  void end_or_go_on(uint32_t node, const At &at) {
    const bool may_end = at.remainder == 0 && !(at.in_fraction && at.n_fraction == 0);
    if (may_end && above_min(at) && below_max(at)) network_.add(node, k_end, grammar::text(""));
    if (!with_fraction_ || at.n_integer + at.n_fraction >= n_most_digits_) return;
    if (at.in_fraction) {
      add_edges(node, at, false);
      return;
    }
    At behind_point = at;
    behind_point.in_fraction = true;
    network_.add(node, node_of(behind_point), grammar::text("."));
  }

  /// Of a number that ends here.
  [[nodiscard]] bool above_min(const At &at) const {
    if (!at.on_min) return true;
    return at.n_fraction >= range_.min.fraction.size() && !range_.excludes_min;
  }
  [[nodiscard]] bool below_max(const At &at) const {
    if (!at.on_max) return true;
    return at.n_fraction < range_.max.fraction.size() || !range_.excludes_max;
  }

  const Range &range_;
  const size_t n_most_digits_;
  const bool with_fraction_;
  const uint64_t multiple_of_;
  grammar::Network network_;
  std::map<At, uint32_t> node_of_;
};

/// Both signs. `limit`: the largest size there is.
Expr signed_numbers(const NumberBounds &bounds, const Decimal &limit, bool with_fraction) {
  const size_t n_digits = limit.integer.size();
  const auto make = [&](const Range &range) {
    const auto order = range.min <=> range.max;
    if (order > 0 || (order == 0 && (range.excludes_min || range.excludes_max)))
      return grammar::choice({});
    return Digits(range, n_digits, with_fraction, bounds.multiple_of).make();
  };
  const Decimal min = std::max(bounds.min.value_or(limit.negated()), limit.negated());
  const Decimal max = std::min(bounds.max.value_or(limit), limit);
  const bool excludes_min = bounds.excludes_min && bounds.min == min;
  const bool excludes_max = bounds.excludes_max && bounds.max == max;
  std::vector<Expr> signs;
  if (!max.is_negative) {
    const bool from_zero = min.is_negative;
    signs.push_back(make({.min = from_zero ? Decimal{} : min,
                          .max = max,
                          .excludes_min = !from_zero && excludes_min,
                          .excludes_max = excludes_max}));
  }
  if (min.is_negative) {
    const bool to_zero = !max.is_negative;
    std::vector<Expr> parts;
    parts.push_back(grammar::text("-"));
    parts.push_back(make({.min = to_zero ? Decimal{} : max.negated(),
                          .max = min.negated(),
                          .excludes_min = to_zero || excludes_max,
                          .excludes_max = excludes_min}));
    signs.push_back(grammar::series(std::move(parts)));
  }
  return grammar::choice(std::move(signs));
}

/// A whole number that bounds integers as `bound` does.
Decimal whole(const Decimal &bound, bool is_min, bool excludes) {
  // Bounds are cut to 18 digits before.
  const int64_t towards_zero =
      Decimal{.is_negative = bound.is_negative, .integer = bound.integer}.as_int64().value_or(0);
  if (bound.is_integer()) return to_decimal(towards_zero + (excludes ? (is_min ? 1 : -1) : 0));
  const bool is_away = is_min != bound.is_negative;
  return to_decimal(towards_zero + (is_away ? (is_min ? 1 : -1) : 0));
}

Expr unbounded_numbers() {
  const auto digit = [](uint32_t n_min, uint32_t n_max) {
    return grammar::repeat(grammar::chars(digits(0, 9)), n_min, n_max);
  };
  const auto join = [](auto... parts) {
    std::vector<Expr> list;
    (list.push_back(std::move(parts)), ...);
    return list;
  };
  constexpr auto k_most = static_cast<uint32_t>(k_integer_digits);
  Expr integer = grammar::choice(
      join(grammar::text("0"),
           grammar::series(join(grammar::chars(digits(1, 9)), digit(0, k_most - 1)))));
  Expr fraction = grammar::series(join(grammar::text("."), digit(1, k_most)));
  Expr exponent = grammar::series(join(grammar::chars({{'e', 'e'}, {'E', 'E'}}),
                                       grammar::optional(grammar::chars({{'+', '+'}, {'-', '-'}})),
                                       digit(1, 2)));
  return grammar::series(join(grammar::optional(grammar::text("-")), std::move(integer),
                              grammar::optional(std::move(fraction)),
                              grammar::optional(std::move(exponent))));
}

}  // namespace

Expected<Expr> json_integers(const NumberBounds &bounds) {
  if (bounds.multiple_of > k_most_multiple) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("multipleOf {} is not supported, {} at most", bounds.multiple_of,
                            k_most_multiple));
  }
  const Decimal limit{.integer = std::string(k_integer_digits, '9')};
  NumberBounds integers{.multiple_of = bounds.multiple_of};
  if (bounds.min) {
    if (*bounds.min > limit)
      return fail(ErrorCode::invalid_argument, "integers of more than 18 digits are not supported");
    integers.min = whole(std::max(*bounds.min, limit.negated()), true, bounds.excludes_min);
  }
  if (bounds.max) {
    if (*bounds.max < limit.negated())
      return fail(ErrorCode::invalid_argument, "integers of more than 18 digits are not supported");
    integers.max = whole(std::min(*bounds.max, limit), false, bounds.excludes_max);
  }
  return signed_numbers(integers, limit, /*with_fraction=*/false);
}

Expected<Expr> json_numbers(const NumberBounds &bounds) {
  if (!bounds.min && !bounds.max) return unbounded_numbers();
  for (const auto &bound : {bounds.min, bounds.max}) {
    if (bound && bound->n_digits() > k_compared_digits) {
      return fail(ErrorCode::invalid_argument,
                  fmt::format("bounds of more than {} digits are not supported for numbers",
                              k_compared_digits));
    }
  }
  return signed_numbers(bounds, {.integer = std::string(k_compared_digits, '9')},
                        /*with_fraction=*/true);
}

}  // namespace patchbay
