#pragma once

#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace patchbay {

/// What a text from outside may hold.
struct JsonLimits {
  size_t n_levels = 100;  ///< of lists and objects; destroying, copying and printing recurse
  size_t n_keys = std::numeric_limits<size_t>::max();  ///< of all objects together
};

enum class JsonFault { syntax, too_deep, too_many_keys };

struct JsonError {
  JsonFault fault = JsonFault::syntax;
  std::string message{};  ///< of a fault of syntax: what and where
};

/// The value of a JSON text (RFC 8259), members in the order in which they are written; of two of
/// one name the later value counts. Takes time that grows with the text alone: nlohmann's own
/// reader looks at all earlier members of an object for each new one. Throws std::bad_alloc. Any
/// thread.
[[nodiscard]] tl::expected<nlohmann::ordered_json, JsonError> read_json(
    std::string_view text, const JsonLimits &limits = {});

}  // namespace patchbay
