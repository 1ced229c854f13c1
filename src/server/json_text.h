#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"
#include "server/http_types.h"

namespace patchbay {

/// Members stay in the order in which they were written.
using Json = nlohmann::ordered_json;

/// Text of a value. Bytes that are no UTF-8 become replacement characters.
[[nodiscard]] std::string to_text(const Json &value);
[[nodiscard]] HttpResponse json_response(const Json &value);

/// The value of a request's body. Refuses, as invalid_argument, what is no JSON, what nests deeper
/// than 100, and anything but an object or array at the top.
[[nodiscard]] Expected<Json> parse_body(std::string_view body);

}  // namespace patchbay
