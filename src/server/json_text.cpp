#include "server/json_text.h"

#include <fmt/format.h>

#include <exception>

namespace patchbay {
namespace {

// Copying or printing a value recurses once per level.
constexpr int k_most_depth = 100;

struct TooDeep : std::exception {};

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
  const auto check_depth = [](int depth, Json::parse_event_t /*event*/, Json & /*parsed*/) {
    if (depth > k_most_depth) throw TooDeep{};
    return true;
  };
  try {
    Json value = Json::parse(body, check_depth);
    if (!value.is_structured())
      return refuse(fmt::format("the body is a JSON {}: want an object", value.type_name()));
    return value;
  } catch (const TooDeep &) {
    return refuse(fmt::format("the body nests deeper than {} levels", k_most_depth));
  } catch (const Json::exception &error) {
    return refuse(fmt::format("the body is no JSON: {}", error.what()));
  }
}

}  // namespace patchbay
