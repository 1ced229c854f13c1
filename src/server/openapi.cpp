#include "server/openapi.h"

#include <algorithm>

#include "server/json_text.h"
#include "server/route_docs.h"

namespace patchbay {
namespace {

/// "string|array" as a list of types.
Json types_of(const std::string &types) {
  Json list = Json::array();
  for (size_t begin = 0; begin <= types.size();) {
    const size_t end = std::min(types.find('|', begin), types.size());
    list.push_back(types.substr(begin, end - begin));
    begin = end + 1;
  }
  return list.size() == 1 ? list[0] : list;
}

Json body_of(const RouteDoc &doc) {
  Json properties = Json::object();
  Json required = Json::array();
  for (const auto &field : doc.fields) {
    properties[field.name] = {{"type", types_of(field.type)}, {"description", field.summary}};
    if (field.is_required) required.push_back(field.name);
  }
  Json schema{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) schema["required"] = std::move(required);
  if (doc.fields.empty()) schema = {{"type", "array"}, {"items", {{"type", "object"}}}};
  return {{"required", true}, {"content", {{"application/json", {{"schema", std::move(schema)}}}}}};
}

Json query_of(const RouteDoc &doc) {
  Json parameters = Json::array();
  for (const auto &field : doc.fields) {
    parameters.push_back({{"name", field.name},
                          {"in", "query"},
                          {"description", field.summary},
                          {"schema", {{"type", field.type}}}});
  }
  return parameters;
}

Json responses_of(const RouteDoc &doc, const Route &route) {
  Json content{{doc.answer, Json::object()}};
  if (doc.streams) content["text/event-stream"] = Json::object();
  Json responses{{"200", {{"description", doc.summary}, {"content", std::move(content)}}}};
  const auto add = [&](const char *status, const char *words) {
    responses[status] = {{"description", words},
                         {"content", {{"application/json", Json::object()}}}};
  };
  if (route.method == "POST") {
    add("400", "the request is wrong");
    add("413", "the body is too large");
  }
  if (route.scope != RouteScope::open) add("401", "a key is needed");
  if (route.scope == RouteScope::admin || route.is_work) add("403", "the key may not do this");
  if (route.is_work || route.path.ends_with('*') || route.scope == RouteScope::admin)
    add("404", "there is none of that name");
  if (route.is_work) add("429", "too much is waiting");
  if (route.is_work || route.path.find("health") != std::string::npos)
    add("503", "the server is shutting down");
  return responses;
}

Json operation_of(const RouteDoc &doc, const Route &route) {
  Json operation{{"summary", doc.summary}, {"tags", Json::array({doc.dialect})}};
  if (route.method == "POST") operation["requestBody"] = body_of(doc);
  Json parameters = route.method == "POST" ? Json::array() : query_of(doc);
  if (route.path.ends_with('*')) {
    parameters.push_back({{"name", "name"},
                          {"in", "path"},
                          {"required", true},
                          {"description", "may hold slashes"},
                          {"schema", {{"type", "string"}, {"minLength", 1}}}});
  }
  if (!parameters.empty()) operation["parameters"] = std::move(parameters);
  operation["responses"] = responses_of(doc, route);
  if (route.scope != RouteScope::open)
    operation["security"] = Json::array({{{"key", Json::array()}}});
  return operation;
}

std::string lower(std::string text) {
  for (char &c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string openapi_path(std::string path) {
  if (!path.ends_with('*')) return path;
  path.pop_back();
  return path + "{name}";
}

}  // namespace

Json openapi_document(const std::vector<Route> &routes) {
  Json paths = Json::object();
  for (const auto &route : routes) {
    const auto &docs = route_docs();
    const auto doc = std::ranges::find_if(docs, [&](const RouteDoc &one) {
      return one.method == route.method && one.path == route.path;
    });
    if (doc != docs.end())
      paths[openapi_path(route.path)][lower(route.method)] = operation_of(*doc, route);
  }
  return {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Patchbay"},
        {"version", "1"},
        {"description", "One base model, any number of LoRA adapters, chosen per request."}}},
      {"paths", std::move(paths)},
      {"components", {{"securitySchemes", {{"key", {{"type", "http"}, {"scheme", "bearer"}}}}}}}};
}

void add_openapi(Router &router, Service & /*service*/) {
  router.add({.method = "GET",
              .path = "/openapi.json",
              .handler = answer_with([&router](const HttpRequest &, const RouteContext &) {
                return json_response(openapi_document(router.routes()));
              })});
}

}  // namespace patchbay
