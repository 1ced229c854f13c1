#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/auth.h"
#include "server/cors.h"
#include "server/exchange.h"

namespace patchbay {

/// What a route's handler is given beside the exchange.
struct RouteContext {
  Principal principal;
  std::string rest;  ///< of a path whose route ends in an asterisk
};

using RouteHandler = std::function<asio::awaitable<void>(Exchange &, RouteContext)>;

/// A handler that needs not wait for anything.
[[nodiscard]] RouteHandler answer_with(
    std::function<HttpResponse(const HttpRequest &, const RouteContext &)> answer);
/// The same for an answer that has to be waited for.
[[nodiscard]] RouteHandler answer_later(
    std::function<asio::awaitable<HttpResponse>(const Exchange &)> answer);

/// Who may ask.
enum class RouteScope {
  open,   ///< everybody, key or not
  key,    ///< whoever has a key, where there are keys
  admin,  ///< who may change the server
};

struct Route {
  std::string method;
  std::string path;  ///< an asterisk at the end stands for any rest that is not empty
  ErrorShape errors = ErrorShape::openai;
  RouteScope scope = RouteScope::key;
  bool is_work = false;  ///< refused while the server drains
  RouteHandler handler{};
};

/// Finds the route of a request and answers what needs none: unknown paths, wrong methods, missing
/// keys. Immutable once the server runs.
class Router {
 public:
  /// `keys` and `is_draining` outlive the router.
  Router(const KeyRing &keys, const std::atomic<bool> &is_draining, CorsRules cors = CorsRules())
      : keys_(keys), is_draining_(is_draining), cors_(std::move(cors)) {}

  void add(Route route) { routes_.push_back(std::move(route)); }
  [[nodiscard]] const std::vector<Route> &routes() const { return routes_; }

  asio::awaitable<void> handle(Exchange &exchange) const;

  /// What a request gets that needs no body to be refused; nullopt: handle() decides.
  [[nodiscard]] std::optional<HttpResponse> refuse_unread(const HttpRequest &head) const;

 private:
  struct Found {
    const Route *route = nullptr;
    RouteContext context;
    HttpResponse refusal;  ///< without a route
  };
  [[nodiscard]] Found find(const HttpRequest &request) const;
  [[nodiscard]] HttpResponse no_route(const HttpRequest &request) const;

  const KeyRing &keys_;
  const std::atomic<bool> &is_draining_;
  CorsRules cors_;
  std::vector<Route> routes_;
};

}  // namespace patchbay
