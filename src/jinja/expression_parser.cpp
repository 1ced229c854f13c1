#include "jinja/expression_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "jinja/limits.h"
#include "jinja/walk.h"

namespace patchbay::jinja {

namespace {

struct Comparison {
  std::string_view text;
  Compare::Op op;
};

constexpr std::array<Comparison, 6> k_comparisons{{{"==", Compare::Op::equal},
                                                   {"!=", Compare::Op::unequal},
                                                   {"<", Compare::Op::less},
                                                   {"<=", Compare::Op::less_equal},
                                                   {">", Compare::Op::greater},
                                                   {">=", Compare::Op::greater_equal}}};

std::string_view node_name(const Expr &expr) {
  constexpr std::array<std::string_view, 18> k_names{
      "const",   "name",   "nsref",    "tuple",   "list",    "dict",  "unary", "binary", "logical",
      "compare", "concat", "condexpr", "getattr", "getitem", "slice", "call",  "filter", "test"};
  return k_names[expr.node.index()];
}

}  // namespace

int depth_of_parts(const Expr &expr) {
  int depth = 0;
  for_each_part(expr, [&](const Expr &part) { depth = std::max(depth, part.depth); });
  return depth;
}

template <class Node>
ExprPtr ExpressionParser::make(int line, Node node) const {
  auto expr = std::make_unique<Expr>(Expr{.line = line, .node = std::move(node)});
  expr->depth = depth_of_parts(*expr) + 1;
  if (expr->depth > k_max_expression_depth) {
    throw SyntaxError(
        line, fmt::format("an expression is more than {} levels deep", k_max_expression_depth));
  }
  return expr;
}

ExprPtr ExpressionParser::parse_tuple(TupleStyle style) { return parse_items(style, false, false); }

ExprPtr ExpressionParser::parse_items(TupleStyle style, bool only_primaries, bool with_namespace) {
  const int line = tokens_.line();
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) tokens_.expect_op(",");
    const bool is_end = tokens_.is(TokenKind::variable_end) || tokens_.is(TokenKind::block_end) ||
                        tokens_.is_op(")") ||
                        (!style.end_name.empty() && tokens_.is_name(style.end_name));
    if (is_end) break;
    items.push_back(only_primaries ? parse_primary(with_namespace)
                                   : parse_expression(style.with_conditional));
    if (!tokens_.is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items.front());
  if (!is_tuple && !style.may_be_empty) {
    tokens_.refuse(fmt::format("Expected an expression, got '{}'", tokens_.described()));
  }
  return make(line, TupleExpr{std::move(items)});
}

ExprPtr ExpressionParser::parse_target(std::string_view end_name, bool with_namespace) {
  ExprPtr target = parse_items({.end_name = end_name}, true, with_namespace);
  check_target(*target);
  return target;
}

void ExpressionParser::check_target(const Expr &target) const {
  if (const auto *tuple = std::get_if<TupleExpr>(&target.node)) {
    for (const ExprPtr &item : tuple->items) check_target(*item);
    return;
  }
  if (std::holds_alternative<Name>(target.node) ||
      std::holds_alternative<NamespaceRef>(target.node)) {
    return;
  }
  throw SyntaxError(target.line, fmt::format("can't assign to '{}'", node_name(target)));
}

ExprPtr ExpressionParser::parse_expression(bool with_conditional) {
  const NestingGuard guard(n_levels_, tokens_.line());
  return with_conditional ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_conditional() {
  int line = tokens_.line();
  ExprPtr then = parse_or();
  while (tokens_.skip_name("if")) {
    ExprPtr test = parse_or();
    ExprPtr otherwise;
    if (tokens_.skip_name("else")) {
      const NestingGuard guard(n_levels_, tokens_.line());
      otherwise = parse_conditional();
    }
    then = make(line, Conditional{std::move(test), std::move(then), std::move(otherwise)});
    line = tokens_.line();
  }
  return then;
}

ExprPtr ExpressionParser::parse_or() {
  int line = tokens_.line();
  ExprPtr left = parse_and();
  while (tokens_.skip_name("or")) {
    ExprPtr right = parse_and();
    left = make(line, Logical{false, std::move(left), std::move(right)});
    line = tokens_.line();
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  int line = tokens_.line();
  ExprPtr left = parse_not();
  while (tokens_.skip_name("and")) {
    ExprPtr right = parse_not();
    left = make(line, Logical{true, std::move(left), std::move(right)});
    line = tokens_.line();
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return parse_compare();
  const NestingGuard guard(n_levels_, line);
  return make(line, Unary{Unary::Op::negation, parse_not()});
}

std::optional<Compare::Op> ExpressionParser::take_comparison() {
  if (tokens_.is(TokenKind::op)) {
    for (const auto &[text, op] : k_comparisons) {
      if (tokens_.skip_op(text)) return op;
    }
    return std::nullopt;
  }
  if (tokens_.skip_name("in")) return Compare::Op::in;
  const bool is_not_in = tokens_.is_name("not") && tokens_.next().kind == TokenKind::name &&
                         tokens_.next().text == "in";
  if (!is_not_in) return std::nullopt;
  tokens_.take();
  tokens_.take();
  return Compare::Op::not_in;
}

ExprPtr ExpressionParser::parse_compare() {
  const int line = tokens_.line();
  Compare compare{.first = parse_sum(), .rest = {}};
  while (const auto op = take_comparison()) compare.rest.emplace_back(*op, parse_sum());
  if (compare.rest.empty()) return std::move(compare.first);
  return make(line, std::move(compare));
}

ExprPtr ExpressionParser::parse_sum() {
  int line = tokens_.line();
  ExprPtr left = parse_concat();
  while (tokens_.is_op("+") || tokens_.is_op("-")) {
    const BinaryOp op = tokens_.take().text == "+" ? BinaryOp::add : BinaryOp::subtract;
    ExprPtr right = parse_concat();
    left = make(line, Binary{op, std::move(left), std::move(right)});
    line = tokens_.line();
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  const int line = tokens_.line();
  std::vector<ExprPtr> parts;
  parts.push_back(parse_product());
  while (tokens_.skip_op("~")) parts.push_back(parse_product());
  if (parts.size() == 1) return std::move(parts.front());
  return make(line, Concat{std::move(parts)});
}

ExprPtr ExpressionParser::parse_product() {
  int line = tokens_.line();
  ExprPtr left = parse_power();
  while (tokens_.is_op("*") || tokens_.is_op("/") || tokens_.is_op("//") || tokens_.is_op("%")) {
    const std::string sign = tokens_.take().text;
    const BinaryOp op = sign == "*"    ? BinaryOp::multiply
                        : sign == "/"  ? BinaryOp::divide
                        : sign == "//" ? BinaryOp::floor_divide
                                       : BinaryOp::modulo;
    ExprPtr right = parse_power();
    left = make(line, Binary{op, std::move(left), std::move(right)});
    line = tokens_.line();
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  int line = tokens_.line();
  ExprPtr left = parse_unary();
  while (tokens_.skip_op("**")) {
    ExprPtr right = parse_unary();
    left = make(line, Binary{BinaryOp::power, std::move(left), std::move(right)});
    line = tokens_.line();
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filters) {
  const int line = tokens_.line();
  ExprPtr operand;
  if (tokens_.is_op("-") || tokens_.is_op("+")) {
    const NestingGuard guard(n_levels_, line);
    const auto op = tokens_.take().text == "-" ? Unary::Op::negate : Unary::Op::affirm;
    operand = make(line, Unary{op, parse_unary(false)});
  } else {
    operand = parse_primary();
  }
  operand = parse_postfix(std::move(operand));
  return with_filters ? parse_filters_and_tests(std::move(operand)) : std::move(operand);
}

ExprPtr ExpressionParser::parse_primary(bool with_namespace) {
  const int line = tokens_.line();
  if (tokens_.is(TokenKind::name)) return parse_name(with_namespace);
  if (tokens_.is(TokenKind::string)) {
    std::string text;
    while (tokens_.is(TokenKind::string)) text += tokens_.take().text;
    return make(line, Constant{Value::string(std::move(text))});
  }
  if (tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real)) {
    return make(line, Constant{tokens_.take().number});
  }
  if (tokens_.skip_op("(")) {
    ExprPtr inner = parse_tuple({.may_be_empty = true});
    tokens_.expect_op(")");
    return inner;
  }
  if (tokens_.is_op("[")) return parse_list();
  if (tokens_.is_op("{")) return parse_dict();
  tokens_.refuse(fmt::format("unexpected '{}'", tokens_.described()));
}

ExprPtr ExpressionParser::parse_name(bool with_namespace) {
  const int line = tokens_.line();
  std::string name = tokens_.take().text;
  if (name == "true" || name == "True") return make(line, Constant{Value::boolean(true)});
  if (name == "false" || name == "False") return make(line, Constant{Value::boolean(false)});
  if (name == "none" || name == "None") return make(line, Constant{Value::none()});
  if (with_namespace && tokens_.skip_op(".")) {
    return make(
        line,
        NamespaceRef{.name = std::move(name), .attribute = tokens_.expect_any_name(), .ref = {}});
  }
  return make(line, Name{.name = std::move(name), .ref = {}});
}

ExprPtr ExpressionParser::parse_list() {
  const int line = tokens_.line();
  tokens_.expect_op("[");
  std::vector<ExprPtr> items;
  while (!tokens_.is_op("]")) {
    if (!items.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("]")) break;
    items.push_back(parse_expression());
  }
  tokens_.expect_op("]");
  return make(line, ListExpr{std::move(items)});
}

ExprPtr ExpressionParser::parse_dict() {
  const int line = tokens_.line();
  tokens_.expect_op("{");
  DictExpr dict;
  while (!tokens_.is_op("}")) {
    if (!dict.entries.empty()) tokens_.expect_op(",");
    if (tokens_.is_op("}")) break;
    ExprPtr key = parse_expression();
    tokens_.expect_op(":");
    dict.entries.emplace_back(std::move(key), parse_expression());
  }
  tokens_.expect_op("}");
  return make(line, std::move(dict));
}

ExprPtr ExpressionParser::parse_postfix(ExprPtr operand) {
  while (true) {
    if (tokens_.is_op(".")) {
      operand = parse_attribute(std::move(operand));
    } else if (tokens_.is_op("[")) {
      operand = parse_subscript(std::move(operand));
    } else if (tokens_.is_op("(")) {
      const int line = tokens_.line();
      CallArguments arguments = parse_arguments();
      operand = make(line, Call{std::move(operand), std::move(arguments)});
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr operand) {
  while (true) {
    if (tokens_.is_op("|")) {
      operand = parse_filters(std::move(operand));
    } else if (tokens_.is_name("is")) {
      operand = parse_test(std::move(operand));
    } else if (tokens_.is_op("(")) {
      const int line = tokens_.line();
      CallArguments arguments = parse_arguments();
      operand = make(line, Call{std::move(operand), std::move(arguments)});
    } else {
      return operand;
    }
  }
}

ExprPtr ExpressionParser::parse_attribute(ExprPtr object) {
  const int line = tokens_.line();
  tokens_.expect_op(".");
  if (tokens_.is(TokenKind::name)) {
    return make(line, Attribute{std::move(object), tokens_.take().text});
  }
  if (!tokens_.is(TokenKind::integer)) tokens_.refuse("expected name or number");
  ExprPtr index = make(line, Constant{tokens_.take().number});
  return make(line, Item{std::move(object), std::move(index)});
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr object) {
  const int line = tokens_.line();
  tokens_.expect_op("[");
  if (tokens_.is_op(":")) return parse_slice(std::move(object), nullptr, line);
  std::vector<ExprPtr> indices;
  while (!tokens_.is_op("]")) {
    if (!indices.empty()) tokens_.expect_op(",");
    if (tokens_.is_op(":")) tokens_.refuse("a slice cannot be part of a tuple");
    indices.push_back(parse_expression());
    if (tokens_.is_op(":")) {
      if (indices.size() > 1) tokens_.refuse("a slice cannot be part of a tuple");
      return parse_slice(std::move(object), std::move(indices.front()), line);
    }
  }
  tokens_.expect_op("]");
  ExprPtr index =
      indices.size() == 1 ? std::move(indices.front()) : make(line, TupleExpr{std::move(indices)});
  return make(line, Item{std::move(object), std::move(index)});
}

/// From the first colon on.
ExprPtr ExpressionParser::parse_slice(ExprPtr object, ExprPtr start, int line) {
  tokens_.expect_op(":");
  Slice slice{.object = std::move(object), .start = std::move(start), .stop = {}, .step = {}};
  if (!tokens_.is_op(":") && !tokens_.is_op("]")) slice.stop = parse_expression();
  if (tokens_.skip_op(":") && !tokens_.is_op("]")) slice.step = parse_expression();
  tokens_.expect_op("]");
  return make(line, std::move(slice));
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = tokens_.expect_any_name();
  while (tokens_.skip_op(".")) name += "." + tokens_.expect_any_name();
  return name;
}

ExprPtr ExpressionParser::parse_filters(ExprPtr operand, bool is_first) {
  while (is_first || tokens_.skip_op("|")) {
    is_first = false;
    const int line = tokens_.line();
    std::string name = parse_dotted_name();
    CallArguments arguments;
    if (tokens_.is_op("(")) arguments = parse_arguments();
    operand = make(line, Filter{std::move(operand), std::move(name), std::move(arguments)});
  }
  return operand;
}

ExprPtr ExpressionParser::parse_test(ExprPtr operand) {
  const int line = tokens_.line();
  tokens_.expect_name("is");
  const bool is_negated = tokens_.skip_name("not");
  std::string name = parse_dotted_name();
  CallArguments arguments = parse_test_arguments();
  ExprPtr test = make(line, Test{std::move(operand), std::move(name), std::move(arguments)});
  return is_negated ? make(line, Unary{Unary::Op::negation, std::move(test)}) : std::move(test);
}

/// In brackets, or one without them.
CallArguments ExpressionParser::parse_test_arguments() {
  if (tokens_.is_op("(")) return parse_arguments();
  const bool is_value = tokens_.is(TokenKind::name) || tokens_.is(TokenKind::string) ||
                        tokens_.is(TokenKind::integer) || tokens_.is(TokenKind::real) ||
                        tokens_.is_op("[") || tokens_.is_op("{");
  const bool is_operator =
      tokens_.is_name("else") || tokens_.is_name("or") || tokens_.is_name("and");
  CallArguments arguments;
  if (!is_value || is_operator) return arguments;
  if (tokens_.is_name("is")) tokens_.refuse("You cannot chain multiple tests with is");
  const NestingGuard guard(n_levels_, tokens_.line());
  arguments.positional.push_back(parse_postfix(parse_primary()));
  return arguments;
}

CallArguments ExpressionParser::parse_arguments() {
  tokens_.expect_op("(");
  CallArguments arguments;
  for (bool is_first = true; !tokens_.is_op(")"); is_first = false) {
    if (!is_first) tokens_.expect_op(",");
    if (tokens_.is_op(")")) break;
    parse_argument(arguments);
  }
  tokens_.expect_op(")");
  return arguments;
}

void ExpressionParser::parse_argument(CallArguments &arguments) {
  const auto require = [&](bool condition) {
    if (!condition) tokens_.refuse("invalid syntax for function call expression");
  };
  if (tokens_.skip_op("*")) {
    require(!arguments.more_positional && !arguments.more_named);
    arguments.more_positional = parse_expression();
  } else if (tokens_.skip_op("**")) {
    require(!arguments.more_named);
    arguments.more_named = parse_expression();
  } else if (tokens_.is(TokenKind::name) && tokens_.next().kind == TokenKind::op &&
             tokens_.next().text == "=") {
    require(!arguments.more_named);
    std::string name = tokens_.take().text;
    const bool is_known = std::any_of(arguments.named.begin(), arguments.named.end(),
                                      [&](const auto &argument) { return argument.first == name; });
    if (is_known) tokens_.refuse(fmt::format("keyword argument repeated: {}", name));
    tokens_.take();
    arguments.named.emplace_back(std::move(name), parse_expression());
  } else {
    require(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
    arguments.positional.push_back(parse_expression());
  }
}

}  // namespace patchbay::jinja
