#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "jinja/ast.h"
#include "jinja/token_stream.h"

namespace patchbay::jinja {

/// Reads expressions as jinja2's parser does, with its ranks of operators. Throws SyntaxError.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream &tokens) : tokens_(tokens) {}

  struct TupleStyle {
    bool with_conditional = true;  ///< whether `a if b else c` may stand in it
    std::string_view end_name{};   ///< a name that ends it, such as "in"; empty: none
    bool may_be_empty = false;
  };

  /// One expression, or a tuple when commas follow.
  ExprPtr parse_tuple(TupleStyle style);
  ExprPtr parse_expression(bool with_conditional = true);
  /// What can be assigned to: a name, or a tuple of them up to the name `end_name`.
  ExprPtr parse_target(std::string_view end_name = {}, bool with_namespace = false);
  /// `|name(...)` once or more, of `operand`, which may be null. `is_first`: the first one stands
  /// without its bar.
  ExprPtr parse_filters(ExprPtr operand, bool is_first = false);

 private:
  ExprPtr parse_items(TupleStyle style, bool only_primaries, bool with_namespace);
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filters = true);
  ExprPtr parse_primary(bool with_namespace = false);
  ExprPtr parse_name(bool with_namespace);
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr operand);
  ExprPtr parse_filters_and_tests(ExprPtr operand);
  ExprPtr parse_attribute(ExprPtr object);
  ExprPtr parse_subscript(ExprPtr object);
  ExprPtr parse_slice(ExprPtr object, ExprPtr start, int line);
  ExprPtr parse_test(ExprPtr operand);
  CallArguments parse_test_arguments();
  CallArguments parse_arguments();
  void parse_argument(CallArguments &arguments);
  std::string parse_dotted_name();
  std::optional<Compare::Op> take_comparison();
  void check_target(const Expr &target) const;

  /// Throws SyntaxError when the expression gets too deep.
  template <class Node>
  ExprPtr make(int line, Node node) const;

  TokenStream &tokens_;
  int n_levels_ = 0;
};

/// The levels of the deepest of an expression's parts.
[[nodiscard]] int depth_of_parts(const Expr &expr);

}  // namespace patchbay::jinja
