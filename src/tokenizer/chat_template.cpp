#include "tokenizer/chat_template.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "base/utf8.h"
#include "jinja/ast.h"
#include "jinja/error.h"
#include "jinja/evaluator.h"
#include "jinja/globals.h"
#include "jinja/json.h"
#include "jinja/parser.h"
#include "jinja/runtime.h"
#include "jinja/syntax_error.h"

namespace patchbay {

namespace {

jinja::Evaluator::Context make_context(const ChatTemplate::Input &input) {
  auto context = jinja::make_globals();
  context["messages"] = jinja::from_json(input.messages);
  context["tools"] = jinja::from_json(input.tools);
  context["documents"] = jinja::Value::none();
  context["add_generation_prompt"] = jinja::Value::boolean(false);
  for (const auto &[name, value] : input.context.items()) context[name] = jinja::from_json(value);
  return context;
}

}  // namespace

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string &path,
                                 const std::string &item) {
  if (!is_valid_utf8(source)) {
    throw LoadError({.path = path, .item = item, .problem = "is not valid UTF-8"});
  }
  try {
    return ChatTemplate(std::make_shared<const jinja::Template>(jinja::parse_template(source)));
  } catch (const jinja::SyntaxError &error) {
    throw LoadError(
        {.path = path,
         .item = item,
         .problem = fmt::format("cannot be read, line {}: {}", error.line(), error.what())});
  }
}

Expected<std::string> ChatTemplate::render(const Input &input) const {
  if (!input.context.is_object()) {
    return fail(ErrorCode::invalid_argument, "the variables of a chat template must be an object");
  }
  std::string place = "chat template";
  try {
    const auto context = make_context(input);
    jinja::Runtime runtime(input.now);
    jinja::Evaluator evaluator(*parsed_, context, runtime);
    try {
      return evaluator.run();
    } catch (const jinja::RenderError &) {
      place += fmt::format(", line {}", evaluator.line());
      throw;
    }
  } catch (const jinja::RenderError &error) {
    const bool is_raised = error.fault() == jinja::Fault::raised;
    return fail(ErrorCode::invalid_argument,
                is_raised ? error.what() : fmt::format("{}: {}", place, error.what()));
  }
}

}  // namespace patchbay
