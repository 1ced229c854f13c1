#include "server/output_fields.h"

#include <string>

namespace patchbay {
namespace {

constexpr const char *k_any_object = R"({"type":"object"})";

/// The schema that a response_format names; empty for text.
std::string read_format(JsonFields &fields, const Json &format) {
  JsonFields inner(format, "response_format");
  const std::string type = inner.text("type").value_or("");
  const Json *schema = inner.any("schema");  // as llama-server takes it
  std::string text;
  if (type == "json_object") {
    text = schema == nullptr ? k_any_object : to_text(*schema);
  } else if (type == "json_schema") {
    const Json *named = inner.object("json_schema");
    if (named != nullptr) {
      JsonFields members(*named, "response_format.json_schema");
      (void)members.text("name");
      (void)members.flag("strict");  // answers are of the schema either way
      schema = members.any("schema");
      if (members.error() != nullptr) inner.take_error(*members.error());
    }
    if (schema == nullptr) {
      inner.refuse("json_schema", "an object with a schema", format);
    } else {
      text = to_text(*schema);
    }
  } else if (type != "text") {
    const Json *found = inner.any("type");
    inner.refuse("type", "one of text, json_object, json_schema",
                 found == nullptr ? Json() : *found);
  }
  if (inner.error() != nullptr) fields.take_error(*inner.error());
  return text;
}

}  // namespace

void read_output_form(JsonFields &fields, Request &request) {
  request.grammar = fields.text("grammar").value_or("");
  const Json *format = fields.object("response_format");
  if (format != nullptr) request.json_schema = read_format(fields, *format);
  const bool has_format = !request.json_schema.empty();
  const Json *schema = fields.any("json_schema");
  if (schema != nullptr) request.json_schema = to_text(*schema);
  const int n_forms =
      (has_format ? 1 : 0) + (schema != nullptr ? 1 : 0) + (request.grammar.empty() ? 0 : 1);
  if (n_forms > 1) {
    ApiError error;
    error.error.code = ErrorCode::invalid_argument;
    error.error.message = "response_format, json_schema and grammar exclude each other";
    error.param = has_format ? "response_format" : "json_schema";
    fields.take_error(error);
  }
}

}  // namespace patchbay
