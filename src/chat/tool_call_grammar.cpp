#include "chat/tool_call_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "grammar/json_schema_grammar.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;

/// What OpenAI takes a tool without parameters for.
Json no_parameters() {
  return {{"type", "object"}, {"properties", Json::object()}, {"additionalProperties", false}};
}

/// The schema is moved to `pointer` of another one; so are the places that it refers to. Values
/// that are no schemas are left alone.
void move_references(Json &schema, const std::string &pointer) {
  constexpr std::array<std::string_view, 4> k_values{"const", "enum", "default", "examples"};
  constexpr std::array<std::string_view, 3> k_by_name{"properties", "$defs", "definitions"};
  if (schema.is_array()) {
    for (Json &item : schema) move_references(item, pointer);
  }
  if (!schema.is_object()) return;
  for (auto &[key, value] : schema.items()) {
    if (key == "$ref" && value.is_string()) {
      const auto &target = value.get_ref<const std::string &>();
      if (target == "#" || target.starts_with("#/")) value = "#" + pointer + target.substr(1);
    } else if (std::ranges::find(k_by_name, key) != k_by_name.end() && value.is_object()) {
      for (auto &named : value) move_references(named, pointer);
    } else if (std::ranges::find(k_values, key) == k_values.end()) {
      move_references(value, pointer);
    }
  }
}

/// One call, as the value at `pointer` of the whole schema.
Json call_schema(const Json &function, const std::string &arguments_key,
                 const std::string &pointer) {
  Json parameters = function.value("parameters", no_parameters());
  move_references(parameters, pointer + "/properties/" + arguments_key);
  // An $id at a place that is not the root would be refused, and means nothing here.
  if (parameters.is_object()) parameters.erase("$id");
  return {{"type", "object"},
          {"properties",
           {{"name", {{"const", function["name"]}}}, {arguments_key, std::move(parameters)}}},
          {"required", {"name", arguments_key}},
          {"additionalProperties", false}};
}

/// Before the schemas are put together, so that a pointer leads into the caller's own.
Expected<void> check_parameters(const Json &tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const Json &function = tools[i]["function"];
    if (!function.contains("parameters")) continue;
    const auto rules = json_schema_rules(function["parameters"].dump());
    if (rules) continue;
    return fail(rules.error().code,
                fmt::format("tools[{}].function.parameters: {}", i, rules.error().message));
  }
  return {};
}

}  // namespace

Expected<ToolCallGrammar> tool_call_grammar(ToolCallStyle style, const Json &tools, bool parallel) {
  if (const auto checked = check_parameters(tools); !checked)
    return tl::unexpected(checked.error());
  const bool is_hermes = style == ToolCallStyle::hermes;
  Json options = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    options.push_back(call_schema(tools[i]["function"], is_hermes ? "arguments" : "parameters",
                                  fmt::format("/anyOf/{}", i)));
  }
  ToolCallGrammar made{.grammar = {}, .json_schema = Json{{"anyOf", std::move(options)}}.dump()};
  if (is_hermes) {
    made.grammar = fmt::format(
        "root ::= call{}\n"
        R"(call ::= "{}\n" json_schema "\n{}")"
        "\n",
        parallel ? " (\"\\n\" call)*" : "", opening_tag(style), closing_tag(style));
  }
  return made;
}

}  // namespace patchbay
