#include "chat/tool_call_grammar.h"

#include <gmock/gmock.h>

#include "grammar/gbnf_parser.h"
#include "grammar/grammar_support.h"
#include "grammar/json_schema_grammar.h"

namespace patchbay {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json tool(const char *name, const char *parameters) {
  Json function{{"name", name}};
  if (parameters != nullptr) function["parameters"] = Json::parse(parameters);
  return {{"type", "function"}, {"function", std::move(function)}};
}

std::shared_ptr<const Grammar> compiled(ToolCallStyle style, const Json &tools, bool parallel) {
  const auto made = tool_call_grammar(style, tools, parallel);
  EXPECT_TRUE(made) << (made ? "" : made.error().message);
  auto rules = json_schema_rules(made->json_schema);
  EXPECT_TRUE(rules) << (rules ? "" : rules.error().message);
  if (!made->grammar.empty()) rules = parse_gbnf_over_schema(made->grammar, *std::move(rules));
  EXPECT_TRUE(rules) << (rules ? "" : rules.error().message);
  return std::make_shared<const Grammar>(*Grammar::compile(*rules, Grammar::MustEnd::root));
}

TEST(ToolCallGrammar, CallsOfThatStyleAndNothingElse) {
  const Json tools = Json::array(
      {tool("get",
            R"({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})"),
       tool("now", nullptr)});
  const auto one = compiled(ToolCallStyle::hermes, tools, false);
  const std::string get =
      "<tool_call>\n{\"name\": \"get\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(matches(one, get));
  EXPECT_TRUE(matches(one, now));
  for (const std::string &text :
       {std::string(), std::string("Hi"), "Hi" + get, get + "\n" + now,
        std::string("<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>")})
    EXPECT_FALSE(matches(one, text)) << text;
  EXPECT_TRUE(matches(compiled(ToolCallStyle::hermes, tools, true), get + "\n" + now));
  const auto llama3 = compiled(ToolCallStyle::llama3, tools, true);
  EXPECT_TRUE(matches(llama3, "{\"name\": \"get\", \"parameters\": {\"a\": 1}}"));
  EXPECT_FALSE(matches(llama3, now));
}

TEST(ToolCallGrammar, ReferencesLeadToTheSamePlaces) {
  const Json tools = Json::array({tool("now", nullptr), tool("tree", R"({
      "type": "object", "$defs": {"node": {"type": "object", "required": ["kids"], "properties": {
        "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}},
        "default": {"$ref": "#/properties/word"}, "$ref": {"const": {"$ref": "#/nowhere"}}}}},
      "properties": {"word": {"enum": ["x"]}, "node": {"$ref": "#/$defs/node"}}, "required": ["node"]})")});
  const auto grammar = compiled(ToolCallStyle::llama3, tools, false);
  EXPECT_TRUE(
      matches(grammar, R"({"name": "tree", "parameters": {"node": {"kids": [{"kids": []}]}}})"));
  EXPECT_TRUE(matches(grammar,
                      R"({"name": "tree", "parameters": {"node": {"kids": [], "default": "x"}}})"));
  EXPECT_TRUE(matches(
      grammar,
      R"({"name": "tree", "parameters": {"node": {"kids": [], "$ref": {"$ref":"#/nowhere"}}}})"));
  EXPECT_FALSE(matches(grammar, R"({"name": "tree", "parameters": {"node": {"kids": [3]}}})"));
}

TEST(ToolCallGrammar, AParameterThatCannotBeHonouredIsNamedWithItsPointer) {
  const Json tools =
      Json::array({tool("now", nullptr), tool("f", R"({"properties": {"a": {"not": {}}}})")});
  const auto made = tool_call_grammar(ToolCallStyle::hermes, tools, true);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message,
              HasSubstr("tools[1].function.parameters: json_schema: #/properties/a/not"));
}

}  // namespace
}  // namespace patchbay
