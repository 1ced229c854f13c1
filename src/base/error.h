#pragma once

#include <tl/expected.hpp>

#include "patchbay/error.hpp"

namespace patchbay {

/// A value, or the reason why a request cannot have it. GCC 12 has std::expected only in C++23
/// mode.
template <class T, class E = Error>
using Expected = tl::expected<T, E>;

/// `return fail(ErrorCode::not_found, "...")` from a function that returns Expected<T>.
[[nodiscard]] inline tl::unexpected<Error> fail(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}

}  // namespace patchbay
