#include "server/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/log.h"

namespace patchbay {
namespace {

/// The rest behind a route's asterisk, empty where it has none; nothing when the path is another.
std::optional<std::string> match(const std::string &pattern, std::string_view path) {
  if (!pattern.ends_with('*'))
    return pattern == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view beginning(pattern.data(), pattern.size() - 1);
  if (!path.starts_with(beginning) || path.size() == beginning.size()) return std::nullopt;
  return std::string(path.substr(beginning.size()));
}

ApiError make_error(ErrorCode code, std::string message) {
  ApiError error;
  error.error.code = code;
  error.error.message = std::move(message);
  return error;
}

bool has_method(const Route &route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

}  // namespace

RouteHandler answer_with(
    std::function<HttpResponse(const HttpRequest &, const RouteContext &)> answer) {
  return [answer = std::move(answer)](Exchange &exchange,
                                      RouteContext context) -> asio::awaitable<void> {
    HttpResponse response = answer(exchange.request(), context);
    (void)co_await exchange.send(std::move(response));
  };
}

RouteHandler answer_later(std::function<asio::awaitable<HttpResponse>(const Exchange &)> answer) {
  return [answer = std::move(answer)](Exchange &exchange,
                                      RouteContext /*context*/) -> asio::awaitable<void> {
    HttpResponse response = co_await answer(exchange);
    (void)co_await exchange.send(std::move(response));
  };
}

HttpResponse Router::no_route(const HttpRequest &request) const {
  std::string methods;
  for (const auto &route : routes_) {
    if (match(route.path, request.path) && methods.find(route.method) == std::string::npos)
      methods += (methods.empty() ? "" : ", ") + route.method;
  }
  if (methods.empty()) {
    return error_response(
        make_error(ErrorCode::not_found, fmt::format("there is no route {}", request.path)),
        ErrorShape::openai);
  }
  HttpResponse response = error_response(
      make_error(ErrorCode::invalid_argument,
                 fmt::format("{} takes {}, found {}", request.path, methods, request.method)),
      ErrorShape::openai);
  response.status = 405;
  response.headers.emplace_back("Allow", methods);
  return response;
}

Router::Found Router::find(const HttpRequest &request) const {
  Found found;
  for (const auto &route : routes_) {
    auto rest = has_method(route, request.method) ? match(route.path, request.path) : std::nullopt;
    if (!rest) continue;
    const auto refuse = [&](ErrorCode code, std::string message) {
      found.refusal = error_response(make_error(code, std::move(message)), route.errors);
      return found;
    };
    if (route.scope != RouteScope::open) {
      auto principal =
          keys_.authenticate(request.header("Authorization"), request.header("X-Api-Key"));
      if (!principal) return refuse(principal.error().code, principal.error().message);
      if (route.scope == RouteScope::admin && !principal->is_admin)
        return refuse(ErrorCode::permission_denied, "this key may not change the server");
      found.context.principal = std::move(*principal);
    }
    if (route.is_work && is_draining_)
      return refuse(ErrorCode::unavailable, "the server is shutting down");
    found.route = &route;
    found.context.rest = std::move(*rest);
    return found;
  }
  found.refusal = no_route(request);
  return found;
}

std::optional<HttpResponse> Router::refuse_unread(const HttpRequest &head) const {
  Found found = find(head);
  if (found.route != nullptr || cors_.preflight(head)) return std::nullopt;
  for (auto &[name, value] : cors_.headers_for(head))
    found.refusal.headers.emplace_back(name, value);
  return std::move(found.refusal);
}

asio::awaitable<void> Router::handle(Exchange &exchange) const {
  for (auto &[name, value] : cors_.headers_for(exchange.request()))
    exchange.add_header(name, value);
  if (auto leave = cors_.preflight(exchange.request())) {
    HttpResponse response = std::move(*leave);
    (void)co_await exchange.send(std::move(response));
    co_return;
  }
  Found found = find(exchange.request());
  std::string failure;
  if (found.route == nullptr) {
    HttpResponse refusal = std::move(found.refusal);
    (void)co_await exchange.send(std::move(refusal));
    co_return;
  }
  exchange.notes().route = found.route->path;
  try {
    RouteContext context = std::move(found.context);
    co_await found.route->handler(exchange, std::move(context));
  } catch (const std::exception &error) {
    failure = error.what();
  }
  if (failure.empty()) co_return;
  log().error("{} {}: {}", exchange.request().id, found.route->path, failure);
  if (exchange.status() != 0) {
    exchange.close();
    co_return;
  }
  HttpResponse response =
      error_response(make_error(ErrorCode::internal, failure), found.route->errors);
  (void)co_await exchange.send(std::move(response));
}

}  // namespace patchbay
