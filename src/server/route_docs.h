#pragma once

#include <string>
#include <vector>

namespace patchbay {

/// A member of a request's object, or of a query.
struct FieldDoc {
  std::string name;
  std::string type;  ///< of JSON; several with "|" between them
  std::string summary;
  bool is_required = false;
};

/// What the description of the server says of a route.
struct RouteDoc {
  std::string method;
  std::string path;  ///< as in Route
  std::string summary;
  std::string dialect;
  std::vector<FieldDoc> fields{};  ///< of the body, or of the query where there is no body
  std::string answer = "application/json";
  bool streams = false;  ///< server-sent events as well, when asked to
};

/// One row for every route that the server has, and none besides; a test compares.
[[nodiscard]] const std::vector<RouteDoc> &route_docs();

}  // namespace patchbay
