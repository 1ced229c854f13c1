#include "server/json_text.h"

#include <fmt/format.h>

#include <utility>

#include "base/read_json.h"

namespace patchbay {
namespace {

constexpr size_t k_most_depth = 100;

}  // namespace

std::string to_text(const Json &value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse json_response(const Json &value) { return {.body = to_text(value)}; }

Expected<Json> parse_body(std::string_view body) {
  const auto refuse = [](std::string words) {
    return fail(ErrorCode::invalid_argument, std::move(words));
  };
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos)
    return refuse("the body is empty: want a JSON object");
  auto value = read_json(body, {.n_levels = k_most_depth});
  if (!value && value.error().fault == JsonFault::too_deep)
    return refuse(fmt::format("the body nests deeper than {} levels", k_most_depth));
  if (!value) return refuse("the body is no JSON: " + value.error().message);
  if (!value->is_structured())
    return refuse(fmt::format("the body is a JSON {}: want an object", value->type_name()));
  return *std::move(value);
}

}  // namespace patchbay
