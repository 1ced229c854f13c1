#include "jinja/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "jinja/error.h"
#include "jinja/expression_parser.h"
#include "jinja/limits.h"
#include "jinja/scopes.h"
#include "jinja/token_stream.h"

namespace patchbay::jinja {

namespace {

using Tags = std::initializer_list<std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(std::string_view source)
      : tokens_(tokenize_template(source)), expressions_(tokens_) {}

  Template run() {
    Template result;
    result.body = parse_block({});
    return result;
  }

 private:
  /// Up to one of `ends`, whose name is then the current token; up to the end without them.
  Block parse_block(Tags ends) {
    const NestingGuard guard(n_levels_, tokens_.line());
    Block block;
    while (true) {
      const int line = tokens_.line();
      if (tokens_.is(TokenKind::end)) {
        if (ends.size() > 0) refuse_end(ends);
        return block;
      }
      if (tokens_.is(TokenKind::data)) {
        output_of(block, line).parts.emplace_back(tokens_.take().text);
      } else if (tokens_.is(TokenKind::variable_begin)) {
        tokens_.take();
        output_of(block, line).parts.emplace_back(expressions_.parse_tuple({}));
        tokens_.expect_end(TokenKind::variable_end);
      } else {
        tokens_.take();  // the begin of a tag
        if (is_one_of(ends)) return block;
        block.push_back({.line = line, .node = parse_statement(ends).node});
        tokens_.expect_end(TokenKind::block_end);
      }
    }
  }

  /// The output at the end of `block`, a new one when that ends with something else.
  static Output &output_of(Block &block, int line) {
    if (block.empty() || !std::holds_alternative<Output>(block.back().node)) {
      block.push_back({.line = line, .node = Output{}});
    }
    return std::get<Output>(block.back().node);
  }

  bool is_one_of(Tags names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return tokens_.is_name(name); });
  }

  [[noreturn]] void refuse_end(Tags ends) {
    tokens_.refuse(
        fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
                    fmt::join(ends, "' or '")));
  }

  Block parse_body(Tags ends) {
    tokens_.skip_op(":");
    tokens_.expect_end(TokenKind::block_end);
    return parse_block(ends);
  }

  Block parse_body_with_end(std::string_view end) {
    Block body = parse_body({end});
    tokens_.take();
    return body;
  }

  Stmt parse_statement(Tags ends) {
    if (!tokens_.is(TokenKind::name)) tokens_.refuse("tag name expected");
    const std::string tag = tokens_.take().text;
    if (tag == "for") return {.node = parse_for()};
    if (tag == "if") return {.node = parse_if()};
    if (tag == "set") return parse_set();
    if (tag == "macro") return {.node = parse_macro()};
    if (tag == "call") return {.node = parse_call_block()};
    if (tag == "filter") return {.node = parse_filter_block()};
    if (tag == "with") return {.node = parse_with()};
    if (tag == "print") return {.node = parse_print()};
    if (tag == "generation") return {.node = parse_generation()};
    if (tag == "break") return {.node = Break{}};
    if (tag == "continue") return {.node = Continue{}};
    for (const std::string_view unsupported :
         {"include", "import", "from", "extends", "block", "autoescape"}) {
      if (tag == unsupported) {
        tokens_.refuse(fmt::format("the tag '{}' is not supported in chat templates", tag));
      }
    }
    const std::string wanted = ends.size() == 0
                                   ? ""
                                   : fmt::format(" Jinja was looking for the following tags: '{}'.",
                                                 fmt::join(ends, "' or '"));
    tokens_.refuse(fmt::format("Encountered unknown tag '{}'.{}", tag, wanted));
  }

  For parse_for() {
    For loop;
    loop.target = expressions_.parse_target("in");
    tokens_.expect_name("in");
    loop.iterable = expressions_.parse_tuple({.with_conditional = false, .end_name = "recursive"});
    if (tokens_.skip_name("if")) loop.test = expressions_.parse_expression();
    loop.is_recursive = tokens_.skip_name("recursive");
    loop.body = parse_body({"endfor", "else"});
    if (tokens_.take().text == "else") loop.otherwise = parse_body_with_end("endfor");
    return loop;
  }

  If parse_if() {
    If node;
    while (true) {
      ExprPtr test = expressions_.parse_tuple({.with_conditional = false});
      node.branches.emplace_back(std::move(test), parse_body({"elif", "else", "endif"}));
      const std::string tag = tokens_.take().text;
      if (tag == "elif") continue;
      if (tag == "else") node.otherwise = parse_body_with_end("endif");
      return node;
    }
  }

  Stmt parse_set() {
    ExprPtr target = expressions_.parse_target({}, true);
    if (tokens_.skip_op("=")) return {.node = Set{std::move(target), expressions_.parse_tuple({})}};
    SetBlock node{.target = std::move(target), .filter = expressions_.parse_filters(nullptr)};
    node.body = parse_body_with_end("endset");
    return {.node = std::move(node)};
  }

  void parse_parameters(MacroBody &macro) {
    tokens_.expect_op("(");
    auto &parameters = macro.parameters;
    while (!tokens_.is_op(")")) {
      if (!parameters.empty()) tokens_.expect_op(",");
      MacroBody::Parameter parameter{.name = parse_plain_name(), .otherwise = {}};
      const bool is_known = std::any_of(
          parameters.begin(), parameters.end(),
          [&](const MacroBody::Parameter &other) { return other.name == parameter.name; });
      if (is_known) tokens_.refuse(fmt::format("duplicate argument '{}'", parameter.name));
      if (tokens_.skip_op("=")) {
        parameter.otherwise = expressions_.parse_expression();
      } else if (!parameters.empty() && parameters.back().otherwise) {
        tokens_.refuse("non-default argument follows default argument");
      }
      parameters.push_back(std::move(parameter));
    }
    tokens_.expect_op(")");
  }

  /// A name that may be assigned to.
  std::string parse_plain_name() {
    std::string name = tokens_.expect_any_name();
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name == constant) tokens_.refuse("can't assign to 'name'");
    }
    return name;
  }

  Macro parse_macro() {
    Macro macro;
    macro.name = parse_plain_name();
    parse_parameters(macro.body);
    macro.body.body = parse_body_with_end("endmacro");
    return macro;
  }

  CallBlock parse_call_block() {
    CallBlock node;
    if (tokens_.is_op("(")) parse_parameters(node.body);
    const int line = tokens_.line();
    node.call = expressions_.parse_expression();
    if (!std::holds_alternative<Call>(node.call->node)) throw SyntaxError(line, "expected call");
    node.body.body = parse_body_with_end("endcall");
    return node;
  }

  FilterBlock parse_filter_block() {
    FilterBlock node{.filter = expressions_.parse_filters(nullptr, true)};
    node.body = parse_body_with_end("endfilter");
    return node;
  }

  With parse_with() {
    With node;
    while (!tokens_.is(TokenKind::block_end)) {
      if (!node.variables.empty()) tokens_.expect_op(",");
      ExprPtr target = expressions_.parse_target();
      tokens_.expect_op("=");
      node.variables.emplace_back(std::move(target), expressions_.parse_expression());
    }
    node.body = parse_body_with_end("endwith");
    return node;
  }

  Output parse_print() {
    Output node;
    while (!tokens_.is(TokenKind::block_end)) {
      if (!node.parts.empty()) tokens_.expect_op(",");
      node.parts.emplace_back(expressions_.parse_expression());
    }
    return node;
  }

  Generation parse_generation() {
    Generation node;
    node.body.body = parse_body_with_end("endgeneration");
    return node;
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int n_levels_ = 0;
};

}  // namespace

Template parse_template(std::string_view source) {
  if (source.size() > k_max_source) {
    throw SyntaxError(1, fmt::format("longer than {} MiB", k_max_source >> 20));
  }
  Template result = StatementParser(source).run();
  bind_names(result);
  return result;
}

}  // namespace patchbay::jinja
